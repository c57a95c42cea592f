package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"slices"
	"strconv"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// anonymousName is shown for a client without username.
const anonymousName = "<anonymous>"

// InspectClients returns a page of the sessions, in order of client ids.
func (b *Broker) InspectClients(ctx context.Context, offset, count int, rates bool) (broker.Page[broker.ConnectedClient], error) {
	if rates {
		return b.measureClients(ctx, offset, count)
	}
	total, infos := b.engine.Clients(offset, count)
	return broker.Page[broker.ConnectedClient]{Total: total, Items: func(yield func(broker.ConnectedClient, error) bool) {
		for i := range infos {
			if !yield(b.clientOf(&i), nil) {
				return
			}
		}
	}}, nil
}

// measureClients is InspectClients with the rates of the clients.
func (b *Broker) measureClients(ctx context.Context, offset, count int) (broker.Page[broker.ConnectedClient], error) {
	total, infos, err := b.engine.ClientsWithRates(ctx, offset, count, broker.RateSpan)
	if err != nil {
		return broker.Page[broker.ConnectedClient]{}, &broker.Error{Kind: broker.Unavailable, Op: "inspectClients",
			Msg: "the rates of the clients could not be measured; try again", Err: err}
	}
	return broker.Page[broker.ConnectedClient]{Total: total, Items: func(yield func(broker.ConnectedClient, error) bool) {
		for i, rate := range infos {
			c := b.clientOf(&i)
			c.RateIn, c.RateOut = &rate.In, &rate.Out
			if !yield(c, nil) {
				return
			}
		}
	}}, nil
}

// InspectClient returns one session with its subscriptions.
func (b *Broker) InspectClient(_ context.Context, clientID string) (broker.ConnectedClientDetail, error) {
	i, subscriptions, err := b.engine.Client(clientID)
	if err != nil {
		return broker.ConnectedClientDetail{}, operationError(err, "inspectClient")
	}
	return b.detailOf(&i, subscriptions), nil
}

// operationError returns an error of the engine as one of the operation.
func operationError(err error, op string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrBounds):
		return &broker.Error{Kind: broker.Invalid, Op: op, Msg: "the subscription is beyond the bounds of the broker's configuration"}
	case errors.Is(err, engine.ErrNoClient):
		return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "there is no client with this client id"}
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the broker cannot store anything at present", Err: err}
}

func (b *Broker) clientOf(i *engine.Info) broker.ConnectedClient {
	return broker.ConnectedClient{
		Username: shownName(i), ClientID: i.ClientID, Address: i.Address,
		Protocol: protocolName(i), ProtocolVersion: versionName(i.Version), Connected: i.Connected,
		LastConnect: b.timeline.Wall(i.ConnectedAt), LastDisconnect: b.lastDisconnect(i),
		Queues: broker.ClientQueues{
			BytesOut: i.Queue.Bytes - i.Queue.InflightBytes, BytesMax: i.Queue.BytesMax,
			MessagesOut: i.Queue.Messages - i.Queue.Inflight, MessagesMax: i.Queue.MessagesMax,
		},
		Listener: listenerOf(i), NumSubscriptions: new(int64(i.Subscribed)), NumDropped: new(numDropped(i)),
		Inflight: &broker.ClientInflightMessages{MessagesIn: i.Queue.Incoming, MessagesOut: i.Queue.Inflight},
	}
}

// numDropped returns the number of messages that a client did not get, whatever the reason.
func numDropped(i *engine.Info) (n int64) {
	for _, dropped := range i.Dropped {
		n += dropped
	}
	return n
}

// listenerOf returns the listener of the client's connection, nil if there is none.
func listenerOf(i *engine.Info) *broker.ClientListener {
	if i.Socket == nil {
		return nil
	}
	return &broker.ClientListener{Port: i.Listener.Port, BindAddress: i.Listener.BindAddress}
}

func shownName(i *engine.Info) string {
	if i.Anonymous {
		return anonymousName
	}
	return i.Username
}

// protocolName returns the protocol of the client's connection, or MQTT for a client that
// is not connected and whose protocol is not stored.
func protocolName(i *engine.Info) string { return cmp.Or(i.Protocol, "MQTT") }

func versionName(v byte) string {
	switch v {
	case packet.V31:
		return "v3.1"
	case packet.V5:
		return "v5"
	}
	return "v3.1.1"
}

// lastDisconnect returns nil for a client that never disconnected.
func (b *Broker) lastDisconnect(i *engine.Info) *int64 {
	if i.GoneAt == 0 {
		return nil
	}
	at := b.timeline.Wall(i.GoneAt)
	return &at
}

// detailOf returns the details of a session. CleanSession is whether the session ends with
// the connection, whatever the client requested in CONNECT.
func (b *Broker) detailOf(i *engine.Info, subscriptions []engine.Subscription) broker.ConnectedClientDetail {
	d := broker.ConnectedClientDetail{
		Username: shownName(i), ClientID: i.ClientID, Address: i.Address,
		Protocol: protocolName(i), ProtocolVersion: versionName(i.Version),
		NumSubscriptions: int64(i.Subscribed), NumPublished: i.Published, NumSubscribed: i.Delivered, NumDropped: numDropped(i),
		BytesPublished: i.PublishedBytes, BytesSubscribed: i.DeliveredBytes,
		Connected: i.Connected, LastConnect: b.timeline.Wall(i.ConnectedAt), LastDisconnect: b.lastDisconnect(i),
		Keepalive: int(i.KeepAlive), CleanSession: i.Expiry == 0, Subscriptions: []string{},
		Listener: listenerOf(i), Will: willOf(i.Will), Queues: queuesOf(&i.Queue), Inflight: b.inflightOf(i),
	}
	d.Dropped = dropsOf(i)
	for _, s := range subscriptions {
		d.Subscriptions = append(d.Subscriptions, s.Filter)
	}
	if i.Socket != nil {
		d.TLS = tlsOf(i.Socket)
	}
	return d
}

// queuesOf returns the messages that wait for the client and are not in flight; Mosquitto
// makes the same distinction. Bytes are those of topics, payloads and properties. The two
// bounds apply to queued and in-flight messages together. Nothing waits in the direction
// from the client, since all is delivered as it arrives, and nothing is paged out of
// memory.
func queuesOf(q *engine.QueueInfo) broker.ClientQueueDetail {
	return broker.ClientQueueDetail{
		BytesOut: q.Bytes - q.InflightBytes, BytesMax: q.BytesMax,
		MessagesOut: q.Messages - q.Inflight, MessagesMax: q.MessagesMax, MessagesOutQoS12: q.MessagesQoS12 - q.Inflight,
	}
}

// maxInflightV3 is how many messages an MQTT 3 client may have in flight, which the broker
// cannot limit: the number of packet identifiers.
const maxInflightV3 = 65_535

// inflightOf returns what was sent over this connection and is not acknowledged. Of a
// message from the client (QoS 2, not yet released) only the packet identifier is kept, so
// it has no bytes; and bytes have no bound of their own, which is shown as 0.
// MessagesOutMax is the client's Receive Maximum, within MessagesMax, which is the
// broker's.
func (b *Broker) inflightOf(i *engine.Info) broker.ClientInflight {
	q := &i.Queue
	f := broker.ClientInflight{
		BytesOut: q.InflightBytes, MessagesIn: q.Incoming, MessagesInMax: q.IncomingMax,
		MessagesOut: q.Inflight, MessagesOutMax: q.InflightMax, MessagesMax: int64(b.config.MaxInflightMessages),
	}
	if i.Version < packet.V5 {
		f.MessagesInMax = maxInflightV3
	}
	return f
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
	for _, p := range packet.DescribeProperties(w.Properties) {
		shown.Properties = append(shown.Properties, broker.WillProperty{Identifier: p.Identifier, Name: p.Name, Value: p.Value})
	}
	if w.HasExpiry {
		shown.Properties = append(shown.Properties, broker.WillProperty{
			Identifier: packet.PropertyMessageExpiry, Value: strconv.FormatUint(uint64(w.Expiry), 10),
		})
	}
	return shown
}

// DisconnectClient ends a client's connection.
func (b *Broker) DisconnectClient(_ context.Context, clientID string) error {
	if err := b.engine.Disconnect(clientID); err != nil {
		return &broker.Error{Kind: broker.NotFound, Op: "disconnectClient", Msg: "no client with this client id is connected", Err: err}
	}
	return nil
}

// ForgetClient deletes a session, and closes its client's connection if there is one.
func (b *Broker) ForgetClient(ctx context.Context, clientID string) error {
	return operationError(b.engine.Forget(ctx, clientID), "forgetClient")
}

var retainHandling = []broker.SendRetain{broker.SendAlways, broker.SendNew, broker.SendNever}

// SubscribeClient adds a subscription to a session on behalf of its client.
func (b *Broker) SubscribeClient(_ context.Context, clientID string, s broker.SubscriptionSpec) error {
	if _, _, shared := packet.SplitShared(s.Topic); shared && s.NoLocal { // [MQTT-3.8.3-4]
		return &broker.Error{Kind: broker.Invalid, Op: "subscribeClient", Msg: "noLocal: must not be set for a shared subscription"}
	}
	return operationError(b.engine.SubscribeClient(clientID, s.Topic, topics.Options{
		QoS: byte(s.QoS), NoLocal: s.NoLocal, RetainAsPublished: s.RetainAsPublished,
		RetainHandling: byte(max(slices.Index(retainHandling, s.SendRetain), 0)), ID: s.SubscriptionIdentifier,
	}), "subscribeClient")
}

// UnsubscribeClient removes a subscription.
func (b *Broker) UnsubscribeClient(_ context.Context, clientID, topic string) error {
	existed, err := b.engine.UnsubscribeClient(clientID, topic)
	if err == nil && !existed {
		return &broker.Error{Kind: broker.NotFound, Op: "unsubscribeClient", Msg: "the client is not subscribed to the topic"}
	}
	return operationError(err, "unsubscribeClient")
}

func dropsOf(i *engine.Info) *broker.ClientDrops {
	return &broker.ClientDrops{
		QueueFull: i.Dropped[engine.DropQueueFull] + i.Dropped[engine.DropQuota], Expired: i.Dropped[engine.DropExpired],
		TooLarge: i.Dropped[engine.DropTooLarge], NotStored: i.Dropped[engine.DropNotStored],
	}
}
