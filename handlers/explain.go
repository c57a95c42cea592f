package handlers

import (
	"context"

	"signalbox/broker"
)

// CheckAccessRequest describes the access to check.
type CheckAccessRequest struct {
	BrokerPath
	Username string `query:"username" doc:"Username of the client in access control; absent stands for clients without a username."`
	ClientID string `query:"clientid" doc:"MQTT client id, which %c stands for; absent is the one that the client is bound to."`
	Action   string `query:"action" required:"true" enum:"publish|receive|subscribe|unsubscribe" doc:"What the client does: publish, receive a message, subscribe or unsubscribe."`
	Topic    string `query:"topic" required:"true" minlen:"1" doc:"Topic, or for subscribe and unsubscribe a topic filter."`
}

// CheckAccess reports whether a client may do something, and which ACL, role and
// group, or what else, decides it.
func (a *API) CheckAccess(ctx context.Context, r *CheckAccessRequest) (broker.Verdict, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return broker.Verdict{}, err
	}
	return b.CheckAccess(ctx, broker.AccessCheck{Username: r.Username, ClientID: r.ClientID,
		Action: broker.Action(r.Action), Topic: r.Topic})
}

// ListDenialsRequest requests the last denials.
type ListDenialsRequest struct {
	BrokerPath
	Paging
}

// ListDenials lists the last denied actions of clients, the newest first.
func (a *API) ListDenials(ctx context.Context, r *ListDenialsRequest) (List[broker.Denial], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Denial]{}, err
	}
	page, err := b.ListDenials(ctx, r.Offset, r.Count)
	return List[broker.Denial]{page: page}, err
}
