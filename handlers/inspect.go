package handlers

import (
	"context"

	"signalbox/broker"
)

// InspectClientsRequest asks for the connected clients.
type InspectClientsRequest struct {
	BrokerPath
	Paging
}

// InspectClients lists the connected clients and the sessions of others.
func (a *API) InspectClients(ctx context.Context, r *InspectClientsRequest) (List[broker.ConnectedClient], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.ConnectedClient]{}, err
	}
	page, err := b.InspectClients(ctx, r.Offset, r.Count)
	return List[broker.ConnectedClient]{page: page}, err
}

// InspectClientRequest names an MQTT client id.
type InspectClientRequest struct {
	BrokerPath
	ClientID string `query:"clientid" required:"true" minlen:"1"`
}

// InspectClient gives the detail of one client's session.
func (a *API) InspectClient(ctx context.Context, r *InspectClientRequest) (broker.ConnectedClientDetail, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return broker.ConnectedClientDetail{}, err
	}
	return b.InspectClient(ctx, r.ClientID)
}

// DisconnectClientRequest names an MQTT client id.
type DisconnectClientRequest struct {
	BrokerPath
	ClientID string `query:"clientid" required:"true" minlen:"1"`
}

// DisconnectClient ends a client's connection.
func (a *API) DisconnectClient(ctx context.Context, r *DisconnectClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DisconnectClient(ctx, r.ClientID)
}
