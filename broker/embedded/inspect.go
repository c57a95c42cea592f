package embedded

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"slices"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/engine/topics"
	"signalbox/broker/embedded/engine/wire"
)

// anonymousName is what inspection shows for a client without username.
const anonymousName = "<anonymous>"

// InspectClients shows a part of the sessions, in order of client ids.
func (b *Broker) InspectClients(_ context.Context, offset, count int) (broker.Page[broker.ConnectedClient], error) {
	total, infos := b.engine.Clients(offset, count)
	return broker.Page[broker.ConnectedClient]{Total: total, Items: func(yield func(broker.ConnectedClient, error) bool) {
		for i := range infos {
			if !yield(clientOf(&i), nil) {
				return
			}
		}
	}}, nil
}

// InspectClient shows everything about one session.
func (b *Broker) InspectClient(_ context.Context, clientID string) (broker.ConnectedClientDetail, error) {
	i, subscriptions, err := b.engine.Client(clientID)
	if err != nil {
		return broker.ConnectedClientDetail{}, named(err, "inspectClient")
	}
	return detailOf(&i, subscriptions), nil
}

// named turns an error of the engine into the broker's.
func named(err error, op string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrNoClient):
		return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "there is no client with this client id"}
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the broker cannot store anything at present", Err: err}
}

func clientOf(i *engine.Info) broker.ConnectedClient {
	return broker.ConnectedClient{
		Username: shownName(i), ClientID: i.ClientID, Address: i.Address,
		Protocol: i.Protocol, ProtocolVersion: versionName(i.Version), Connected: i.Connected,
		LastConnect: i.ConnectedAt, LastDisconnect: lastGone(i),
		Queues: broker.ClientQueues{
			BytesOut: i.Queue.Bytes, BytesMax: i.Queue.BytesMax,
			MessagesOut: i.Queue.Messages, MessagesMax: i.Queue.MessagesMax,
		},
	}
}

func shownName(i *engine.Info) string {
	if i.Anonymous {
		return anonymousName
	}
	return i.Username
}

func versionName(v byte) string {
	switch v {
	case wire.V31:
		return "v3.1"
	case wire.V5:
		return "v5"
	}
	return "v3.1.1"
}

// lastGone is nil for a client that never disconnected.
func lastGone(i *engine.Info) *int64 {
	if i.GoneAt == 0 {
		return nil
	}
	return &i.GoneAt
}

func detailOf(i *engine.Info, subscriptions []engine.Subscription) broker.ConnectedClientDetail {
	q := &i.Queue
	d := broker.ConnectedClientDetail{
		Username: shownName(i), ClientID: i.ClientID, Address: i.Address,
		Protocol: i.Protocol, ProtocolVersion: versionName(i.Version),
		NumSubscriptions: int64(i.Subscribed), NumPublished: i.Published, NumSubscribed: i.Delivered, NumDropped: i.Dropped,
		BytesPublished: i.PublishedBytes, BytesSubscribed: i.DeliveredBytes,
		Connected: i.Connected, LastConnect: i.ConnectedAt, LastDisconnect: lastGone(i),
		Keepalive: int(i.KeepAlive), CleanSession: i.CleanStart, Subscriptions: []string{},
		Will: willOf(i.Will),
		Queues: broker.ClientQueueDetail{
			BytesOut: q.Bytes, BytesMax: q.BytesMax,
			MessagesIn: q.Incoming, MessagesMax: q.MessagesMax, MessagesInQoS12: q.Incoming,
			MessagesOut: q.Messages, MessagesOutQoS12: q.MessagesQoS12,
		},
		Inflight: broker.ClientInflight{
			BytesOut: q.InflightBytes, BytesMax: q.BytesMax,
			MessagesIn: q.Incoming, MessagesInMax: q.IncomingMax,
			MessagesOut: q.Inflight, MessagesOutMax: q.InflightMax, MessagesMax: q.InflightMax,
		},
	}
	for _, s := range subscriptions {
		d.Subscriptions = append(d.Subscriptions, s.Filter)
	}
	if i.Socket != nil {
		d.Listener = &broker.ClientListener{Port: i.Listener.Port, BindAddress: i.Listener.BindAddress}
		d.TLS = tlsOf(i.Socket)
	}
	return d
}

func tlsOf(s *engine.Socket) *broker.ClientTLS {
	if s.TLS == nil {
		return nil
	}
	state, ok := s.TLS()
	if !ok {
		return nil
	}
	t := &broker.ClientTLS{Version: tls.VersionName(state.Version), Ciphers: tls.CipherSuiteName(state.CipherSuite)}
	if t.Version == "TLS 1.3" || t.Version == "TLS 1.2" {
		t.Version = "TLSv" + t.Version[4:]
	}
	if len(state.PeerCertificates) > 0 {
		block := pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw}
		t.ClientCertificate = string(pem.EncodeToMemory(&block))
	}
	return t
}

func willOf(w *engine.WillRecord) *broker.ClientWill {
	if w == nil {
		return nil
	}
	shown := &broker.ClientWill{
		Topic: w.Topic, QoS: int(w.QoS), Retain: w.Retain, Payload: base64.StdEncoding.EncodeToString(w.Payload),
		DelayInterval: int64(w.Delay), Properties: []broker.WillProperty{},
	}
	for _, p := range wire.DescribeProperties(w.Properties) {
		shown.Properties = append(shown.Properties, broker.WillProperty{Identifier: p.Identifier, Name: p.Name, Value: p.Value})
	}
	return shown
}

// DisconnectClient ends a client's connection.
func (b *Broker) DisconnectClient(_ context.Context, clientID string) error {
	return named(b.engine.Disconnect(clientID), "disconnectClient")
}

var retainHandling = []broker.SendRetain{broker.SendAlways, broker.SendNew, broker.SendNever}

// SubscribeClient subscribes a session in its client's place.
func (b *Broker) SubscribeClient(_ context.Context, clientID string, s broker.SubscriptionSpec) error {
	return named(b.engine.SubscribeClient(clientID, s.Topic, topics.Options{
		QoS: byte(s.QoS), NoLocal: s.NoLocal, RetainAsPublished: s.RetainAsPublished,
		RetainHandling: byte(max(slices.Index(retainHandling, s.SendRetain), 0)), ID: s.SubscriptionIdentifier,
	}), "subscribeClient")
}

// UnsubscribeClient ends a subscription.
func (b *Broker) UnsubscribeClient(_ context.Context, clientID, topic string) error {
	had, err := b.engine.UnsubscribeClient(clientID, topic)
	if err == nil && !had {
		return &broker.Error{Kind: broker.NotFound, Op: "unsubscribeClient", Msg: "the client is not subscribed to the topic"}
	}
	return named(err, "unsubscribeClient")
}
