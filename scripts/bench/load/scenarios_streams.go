//go:build linux

package load

import "fmt"

// The names of the loads of streams.
const (
	NoSubscriber          = "streams-unread"
	OneSubscriber         = "streams-subscriber"
	Republished           = "streams-republish"
	RepublishedSubscribed = "streams-republish-heard"
	Queried               = "streams-query"
	QueriedSubscribed     = "streams-query-heard"
	Persisted             = "streams-persist-0"
	PersistedSafe         = "streams-persist-1"
	PersistedFlood        = "streams-persist-flood"
	Replay                = "streams-replay"
	ReplaySubscribed      = "streams-replay-heard"
	ReplaySubscribedSafe  = "streams-replay-heard-1"
	NoBystanders          = "streams-none"
	Bystanders            = "streams-many"
)

// Streams returns the loads of brokers with streams. Each has topics of its own, so
// that all of them can be played with one broker.
func Streams() []Scenario {
	const messages = 200_000
	return []Scenario{
		{Name: NoSubscriber, Title: "10 publishers, no subscriber", Load: through(NoSubscriber, false, ""), Messages: messages},
		{Name: OneSubscriber, Title: "10 publishers → 1 subscriber", Load: plain(OneSubscriber), Messages: messages},
		{Name: Republished, Title: "10 publishers → stream → no subscriber", Load: republish(Republished, false, ""), Messages: messages},
		{Name: RepublishedSubscribed, Title: "10 publishers → stream → 1 subscriber", Load: republish(RepublishedSubscribed, true, ""), Messages: messages},
		{Name: Queried, Title: "10 publishers → stream with query → no subscriber", Load: republish(Queried, false, query), Messages: messages},
		{Name: QueriedSubscribed, Title: "10 publishers → stream with query → 1 subscriber", Load: republish(QueriedSubscribed, true, query), Messages: messages},
		{Name: Persisted, Title: "10 publishers → stream that persists, QoS 0", Load: persist(Persisted, 0), Messages: messages},
		{Name: PersistedSafe, Title: "64 publishers → stream that persists, QoS 1", Load: persist(PersistedSafe, 1), Messages: messages},
		{Name: PersistedFlood, Title: "10 publishers who do not wait → stream that persists, QoS 0", Load: flood(PersistedFlood), Messages: 2 * messages},
		{Name: Replay, Title: "replay at speed 0 → no subscriber", Load: Replayed{Name: Replay, Stored: messages}, Messages: messages},
		{Name: ReplaySubscribed, Title: "replay at speed 0 → 1 subscriber, QoS 0", Load: Replayed{Name: ReplaySubscribed, Stored: messages, Subscribed: true}, Messages: messages},
		{Name: ReplaySubscribedSafe, Title: "replay at speed 0 → 1 subscriber, QoS 1", Load: Replayed{Name: ReplaySubscribedSafe, Stored: messages, Subscribed: true, QoS: 1}, Messages: messages},
		{Name: NoBystanders, Title: "no stream", Load: plain(NoBystanders), Messages: messages},
		{Name: Bystanders, Title: "1,000 streams of which none matches", Load: bystanders(Bystanders, 1_000), Messages: messages},
	}
}

// query has two selects, one where and one aggregate, and passes every message.
const query = `{"select":[{"source":"[machine][publisher]","target":"[machine][publisher]"},
	{"source":"[number]","target":"[number]"},
	{"source":"[data][speed]","target":"[data][speedmax]","alias":"fastest","function":{"name":"max"}}],
	"where":[{"operator":">=","left":"fastest","right":0}]}`

// through returns a flow of JSON from 10 publishers of QoS 0, whose window follows what
// the broker has received.
func through(name string, heard bool, filter string) Flow {
	f := Flow{Publishers: 10, Topics: 1, Name: name, Window: windowFree, JSON: true, Pings: true, Filter: filter}
	if heard {
		f.Subscribers = 1
	}
	return f
}

func plain(name string) Flow { return through(name, true, "") }

// republish returns a flow through a stream to another topic.
func republish(name string, heard bool, query string) Streamed {
	target := "bench/" + name + "/out"
	f := through(name, heard, target)
	return Streamed{Flow: f, Streams: []Stream{{Name: name, Source: f.topic(0), Target: target, Query: query}}}
}

// persist returns a flow into a stream that stores it.
func persist(name string, qos byte) Streamed {
	f := through(name, false, "")
	if qos > 0 {
		f.Publishers, f.QoS, f.Window, f.Pings = 64, qos, windowAcked, false
	}
	return Streamed{Flow: f, Streams: []Stream{{Name: name, Source: f.topic(0), Persist: true}}}
}

func flood(name string) Streamed {
	s := persist(name, 0)
	s.Lossy = true
	return s
}

// bystanders returns a plain flow next to many streams of other topics, whose filters
// are of every kind.
func bystanders(name string, n int) Streamed {
	s := Streamed{Flow: plain(name), Watched: -1}
	for i := range n {
		filter := fmt.Sprintf([]string{"bench/idle/%04d", "bench/idle/%04d/#", "bench/+/%04d", "+/idle/%04d/+"}[i%4], i)
		s.Streams = append(s.Streams, Stream{Name: fmt.Sprintf("%s-%04d", name, i), Source: filter, Target: fmt.Sprintf("idle-out/%04d", i)})
	}
	return s
}
