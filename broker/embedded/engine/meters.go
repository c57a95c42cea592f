package engine

import "sync/atomic"

// DropReason is why a message was not delivered to a client.
type DropReason int

// The reasons, in the order in which they are shown.
const (
	DropQueueFull DropReason = iota // the client's queue was full
	DropExpired                     // it expired before it was sent
	DropTooLarge                    // it exceeds the client's maximum packet size
	DropNotStored                   // it could not be stored
	DropQuota                       // a quota of the broker or of the client's user was reached
	dropReasons
)

// String returns the name of the reason in metrics.
func (r DropReason) String() string {
	return [...]string{"queue-full", "expired", "too-large", "not-stored", "quota"}[r]
}

// DropReasons returns all reasons.
func DropReasons() []DropReason {
	return []DropReason{DropQueueFull, DropExpired, DropTooLarge, DropNotStored, DropQuota}
}

// meters are counters since the start.
type meters struct {
	packetsReceived, packetsSent     atomic.Int64
	publishesReceived, publishesSent atomic.Int64
	payloadReceived, payloadSent     atomic.Int64
	bytesReceived, bytesSent         atomic.Int64 // by Socket.Raw and Polled only
	dropped                          [dropReasons]atomic.Int64
	quota                            [quotaReasons]atomic.Int64
	subscriptions                    atomic.Int64
	connections, refused, left       atomic.Int64
	connected, maximum, expired      atomic.Int64
}

// Counts are the values of the meters.
type Counts struct {
	PacketsReceived, PacketsSent     int64
	PublishesReceived, PublishesSent int64
	PayloadReceived, PayloadSent     int64 // bytes
	BytesReceived, BytesSent         int64 // by Socket.Raw and Polled only
	Dropped                          map[DropReason]int64
	QuotaRefused                     map[QuotaReason]int64
	Subscriptions, Shared            int64
	Connections, Refused, Left       int64 // log-ins since the start that succeeded, failed, were abandoned by the client
	Connected, Maximum               int64 // clients now, and the greatest number since the start
	Sessions                         int64 // connected ones included
	Expired                          int64 // sessions
	Retained, RetainedBytes          int64
	Queued, QueuedBytes              int64 // for all clients
}

// Counts returns the values of the meters, after a pass over all sessions.
func (e *Engine) Counts() Counts {
	c := e.Totals()
	for _, s := range e.all() {
		c.Sessions++
		s.mu.Lock()
		c.Queued += int64(s.out.waiting())
		c.QueuedBytes += s.out.bytes
		s.mu.Unlock()
	}
	return c
}

// Totals returns the values of the meters without Sessions, Queued and QueuedBytes.
func (e *Engine) Totals() Counts {
	m := e.meters
	c := Counts{
		PacketsReceived: m.packetsReceived.Load(), PacketsSent: m.packetsSent.Load(),
		PublishesReceived: m.publishesReceived.Load(), PublishesSent: m.publishesSent.Load(),
		PayloadReceived: m.payloadReceived.Load(), PayloadSent: m.payloadSent.Load(),
		BytesReceived: m.bytesReceived.Load(), BytesSent: m.bytesSent.Load(),
		Dropped:       map[DropReason]int64{},
		Subscriptions: m.subscriptions.Load(), Shared: int64(e.index.SharedLen()),
		Connections: m.connections.Load(), Refused: m.refused.Load(), Left: m.left.Load(),
		Connected: m.connected.Load(), Maximum: m.maximum.Load(), Expired: m.expired.Load(),
		Retained: int64(e.retained.index.Len()), RetainedBytes: e.retained.bytes.Load(),
	}
	for _, r := range DropReasons() {
		c.Dropped[r] = m.dropped[r].Load()
	}
	c.QuotaRefused = map[QuotaReason]int64{}
	for _, r := range QuotaReasons() {
		c.QuotaRefused[r] = m.quota[r].Load()
	}
	return c
}

func (m *meters) drop(why DropReason, n int) { m.dropped[why].Add(int64(n)) }

// wrote counts a batch.
func (m *meters) wrote(b *batch) {
	m.packetsSent.Add(int64(b.packets))
	if b.messages > 0 {
		m.publishesSent.Add(int64(b.messages))
		m.payloadSent.Add(int64(b.payload))
	}
}

// enter counts an accepted client.
func (m *meters) enter() {
	m.connections.Add(1)
	now := m.connected.Add(1)
	for {
		high := m.maximum.Load()
		if now <= high || m.maximum.CompareAndSwap(high, now) {
			return
		}
	}
}

func (m *meters) leave() { m.connected.Add(-1) }
