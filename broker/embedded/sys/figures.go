package sys

import (
	"runtime/metrics"
	"strconv"
	"time"
)

// prefix is the prefix of a broker's topics about itself.
const prefix = "$SYS/broker/"

// figures are topics with their values.
type figures map[string]string

func (f figures) text(name, value string) { f[prefix+name] = value }

func (f figures) count(name string, n int64) { f.text(name, strconv.FormatInt(n, 10)) }

// brief are the figures that take no pass over all sessions.
func (f figures) brief(r *Reading) {
	f.count("clients/connected", r.Connected)
	f.count("subscriptions/count", max(r.Subscriptions-r.Shared, 0)) // those that are not shared
	f.count("shared_subscriptions/count", r.Shared)
	f.count("publish/messages/received", r.PublishesReceived)
	f.count("publish/messages/sent", r.PublishesSent)
	f.count("publish/messages/dropped", r.dropped())
	f.count("retained messages/count", r.Retained)
	f.bytes(r)
}

func (f figures) clients(r *Reading) {
	away := max(r.Sessions-r.Connected, 0)
	f.count("clients/total", r.Connected+away)
	f.count("clients/active", r.Connected) // as connected, under its older name
	f.count("clients/disconnected", away)
	f.count("clients/inactive", away) // the same as disconnected
	f.count("clients/maximum", r.Maximum)
	f.count("clients/expired", r.Expired)
}

// messages counts packets, which Mosquitto calls messages, and messages.
func (f figures) messages(r *Reading) {
	f.count("messages/received", r.PacketsReceived)
	f.count("messages/sent", r.PacketsSent)
	f.count("messages/stored", r.Stored) // as store/messages/count, under its older name
	f.count("store/messages/count", r.Stored)
	f.count("store/messages/bytes", r.StoredBytes)
}

func (f figures) bytes(r *Reading) {
	f.count("bytes/received", r.WireReceived)
	f.count("bytes/sent", r.WireSent)
	f.count("publish/bytes/received", r.PayloadReceived)
	f.count("publish/bytes/sent", r.PayloadSent)
}

// seconds formats a duration as Mosquitto formats its uptime.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(d/time.Second), 10) + " seconds"
}

// heapInUse returns the bytes of heap objects.
func heapInUse() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
