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
	FilterValue  string `query:"filterValue" doc:"Only clients that match this value; empty returns all."`
	FilterMode   string `query:"filterMode" default:"contains" enum:"contains|equals|startsWith|endsWith|regex" doc:"How filterValue is compared. All modes but equals and regex ignore case. A regular expression (RE2) has at most 1000 bytes and 1000 instructions once compiled, and 5 seconds for the list."`
	FilterTarget string `query:"filterTarget" default:"clientid" enum:"clientid|username|address" doc:"Field that filterValue is compared with."`
	State        string `query:"state" default:"all" enum:"all|connected|disconnected" doc:"Only clients that are connected, or only sessions whose client is not."`
	Queued       bool   `query:"queued" default:"false" doc:"True returns only clients for which messages wait."`
	Dropped      bool   `query:"dropped" default:"false" doc:"True returns only clients that did not get messages. NOT_SUPPORTED if the broker does not report numDropped."`
	Rates        bool   `query:"rates" default:"false" doc:"True returns the messages per second of each client, which are measured for 0.9 seconds that the response takes. A remote broker does not report them."`
}

// InspectClients lists the connected clients and the sessions of others.
func (a *API) InspectClients(ctx context.Context, r *InspectClientsRequest) (List[broker.ConnectedClient], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.ConnectedClient]{}, err
	}
	o, err := options(Listing{Paging: r.Paging, Verbose: true, FilterValue: r.FilterValue, FilterMode: r.FilterMode},
		r.FilterTarget, broker.SessionFilter)
	if err != nil {
		return List[broker.ConnectedClient]{}, err
	}
	if o.Match == nil && r.State == "all" && !r.Queued && !r.Dropped {
		page, err := b.InspectClients(ctx, r.Offset, r.Count, r.Rates)
		return List[broker.ConnectedClient]{page: page}, err
	}
	o.Match = r.match(o.Match)
	page, err := b.InspectClients(ctx, 0, -1, r.Rates)
	if err != nil {
		return List[broker.ConnectedClient]{}, err
	}
	page, err = broker.Select(ctx, page.Items, o)
	return List[broker.ConnectedClient]{page: page}, err
}

// match adds the conditions on the state, the queue and the dropped messages to those of text.
func (r *InspectClientsRequest) match(text broker.Match[broker.ConnectedClient]) broker.Match[broker.ConnectedClient] {
	return func(ctx context.Context, c broker.ConnectedClient) (bool, error) {
		if r.Dropped && c.NumDropped == nil {
			return false, &broker.Error{Kind: broker.Unsupported, Op: "inspectClients", Feature: broker.CapInspect,
				Msg: "clients cannot be filtered by dropped messages: the broker's list of clients does not have their number"}
		}
		if r.Dropped && *c.NumDropped == 0 {
			return false, ctx.Err()
		}
		if r.State != "all" && c.Connected != (r.State == "connected") || r.Queued && c.Queues.MessagesOut == 0 {
			return false, ctx.Err()
		}
		return broker.Matches(ctx, text, c)
	}
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

// TopClientsRequest asks for the sessions with the highest figures.
type TopClientsRequest struct {
	BrokerPath
	By    string `query:"by" default:"queue" enum:"queue|dropped|rate|inflight|subscriptions" doc:"Figure by which the sessions are ordered: messages that wait (queue), messages that the client did not get (dropped), messages from and to the client per second (rate), messages in flight, or subscriptions."`
	Count int    `query:"count" default:"10" min:"1" max:"100" doc:"Maximum number of sessions to return."`
}

// TopClients returns the sessions with the highest figures.
func (a *API) TopClients(ctx context.Context, r *TopClientsRequest) (broker.TopClients, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return broker.TopClients{}, err
	}
	return b.TopClients(ctx, broker.ClientFigure(r.By), r.Count)
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
