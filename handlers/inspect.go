package handlers

import (
	"cmp"
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
	ClientID string `query:"clientid" required:"true" minlen:"1" doc:"MQTT client id."`
}

// InspectClient returns the details of one client's session.
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
	ClientID string `query:"clientid" required:"true" minlen:"1" doc:"MQTT client id."`
}

// DisconnectClient ends a client's connection.
func (a *API) DisconnectClient(ctx context.Context, r *DisconnectClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DisconnectClient(ctx, r.ClientID)
}

// ForgetClientRequest names an MQTT client id.
type ForgetClientRequest struct {
	BrokerPath
	ClientID string `query:"clientid" required:"true" minlen:"1" doc:"MQTT client id."`
}

// ForgetClient deletes a client's session, and closes its connection if there is one.
func (a *API) ForgetClient(ctx context.Context, r *ForgetClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.ForgetClient(ctx, r.ClientID)
}

// notASubscription is the error for a filter that cannot be subscribed to.
const notASubscription = "is not a topic filter: # may only be the last level, + and # must fill a level, and $share/ needs a name and a filter"

// SubscribeClientRequest describes a subscription on behalf of a client.
type SubscribeClientRequest struct {
	BrokerPath
	Body struct {
		ClientID               string `json:"clientid" required:"true" minlen:"1" doc:"MQTT client id of an existing session." example:"meter-7"`
		Topic                  string `json:"topic" required:"true" minlen:"1" doc:"Topic filter; $share/name/filter for a shared subscription." example:"alarms/+"`
		QoS                    int    `json:"qos" min:"0" max:"2" doc:"Highest QoS with which messages are delivered; default 0." example:"1"`
		SubscriptionIdentifier uint32 `json:"subscriptionIdentifier" min:"0" max:"268435455" doc:"MQTT 5 subscription identifier, which is sent with each message of the subscription; default 0, which is none." example:"0"`
		NoLocal                bool   `json:"noLocal" doc:"True does not send the client what it publishes itself; default false." example:"false"`
		RetainAsPublished      bool   `json:"retainAsPublished" doc:"True sends messages with the RETAIN flag with which they were published; default false." example:"false"`
		SendRetain             string `json:"sendRetain" enum:"always|new|never" doc:"When retained messages are sent: always (default), new (only if the subscription is new) or never." example:"always"`
	}
}

// Validate checks the filter.
func (r *SubscribeClientRequest) Validate() []FieldError {
	if t := r.Body.Topic; t != "" && !broker.ValidSubscription(t) {
		return []FieldError{{"body.topic", notASubscription}}
	}
	return nil
}

// SubscribeClient subscribes a client as if it had sent SUBSCRIBE.
func (a *API) SubscribeClient(ctx context.Context, r *SubscribeClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.SubscribeClient(ctx, r.Body.ClientID, broker.SubscriptionSpec{
		Topic: r.Body.Topic, QoS: r.Body.QoS, SubscriptionIdentifier: r.Body.SubscriptionIdentifier,
		NoLocal: r.Body.NoLocal, RetainAsPublished: r.Body.RetainAsPublished,
		SendRetain: broker.SendRetain(cmp.Or(r.Body.SendRetain, string(broker.SendAlways))),
	})
}

// UnsubscribeClientRequest names a subscription of a client.
type UnsubscribeClientRequest struct {
	BrokerPath
	ClientID string `query:"clientid" required:"true" minlen:"1" doc:"MQTT client id."`
	Topic    string `query:"topic" required:"true" minlen:"1" doc:"Topic filter of the subscription, as it was subscribed to."`
}

// Validate checks the filter.
func (r *UnsubscribeClientRequest) Validate() []FieldError {
	if r.Topic != "" && !broker.ValidSubscription(r.Topic) {
		return []FieldError{{"query.topic", notASubscription}}
	}
	return nil
}

// UnsubscribeClient ends a subscription of a client.
func (a *API) UnsubscribeClient(ctx context.Context, r *UnsubscribeClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.UnsubscribeClient(ctx, r.ClientID, r.Topic)
}
