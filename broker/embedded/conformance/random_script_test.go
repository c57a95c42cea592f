package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A script is the steps of the clients of one random run, one after the other. It follows
// from its seed alone, so that two brokers can be given the same. A step that is impossible
// when it is reached (a publish by a client that is not connected) is skipped; so any part
// of a script is a valid script, and one that shows a difference can be shortened.
type script []step

// step is one action of one client. The kind determines which of the other fields are used.
type step struct {
	kind   stepKind
	client int

	version byte // connect
	clean   bool
	expiry  uint32 // seconds; MQTT 5 only
	window  uint16 // Receive Maximum; 0 for none; MQTT 5 only
	will    *scriptedMessage

	filters []scriptedFilter // subscribe, unsubscribe
	subID   uint32           // subscribe; 0 for none; MQTT 5 only

	messages []scriptedMessage // publish, in one write
}

type stepKind byte

const (
	stepConnect     stepKind = iota // while connected and without Will: a take-over
	stepSubscribe                   // one SUBSCRIBE
	stepUnsubscribe                 // one UNSUBSCRIBE
	stepPublish                     // a burst of PUBLISH packets
	stepLeave                       // DISCONNECT
	stepLeaveWill                   // DISCONNECT with Will message, with a Will only; before MQTT 5 as stepVanish
	stepVanish                      // the connection ends without DISCONNECT, with a Will only
	stepMute                        // from now on, until it reconnects, the client acknowledges nothing
	stepHalf                        // from now on, until it reconnects, it sends PUBREC and never PUBCOMP
)

func (k stepKind) String() string {
	return [...]string{"connect", "subscribe", "unsubscribe", "publish", "leave", "leave with will",
		"vanish", "hush", "half"}[k]
}

// scriptedFilter is a topic filter below the run's own prefix with the options
// of its subscription.
type scriptedFilter struct {
	share  string // "" for an ordinary subscription
	filter string
	qos    byte
	opts   byte // no local, retain as published, retain handling, as in the packet; MQTT 5 only
}

// scriptedMessage is a message on a topic below the run's own prefix. Its payload is unique
// within the run.
type scriptedMessage struct {
	topic   string
	payload string
	qos     byte
	retain  bool
	props   bool   // with properties that must arrive unchanged; MQTT 5 only
	expiry  uint32 // seconds, hours long; 0 for none; MQTT 5 only
	alias   bool   // sent with a topic alias; MQTT 5 only
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d %s", s.client, s.kind)
	switch s.kind {
	case stepConnect:
		fmt.Fprintf(&b, " v%d clean=%t expiry=%d window=%d", s.version, s.clean, s.expiry, s.window)
		if s.will != nil {
			fmt.Fprintf(&b, " will %+v", *s.will)
		}
	case stepSubscribe, stepUnsubscribe:
		fmt.Fprintf(&b, " id=%d %+v", s.subID, s.filters)
	case stepPublish:
		fmt.Fprintf(&b, " %+v", s.messages)
	}
	return b.String()
}

func (s script) String() string {
	var b strings.Builder
	for i, st := range s {
		fmt.Fprintf(&b, "%3d  %s\n", i, st)
	}
	return b.String()
}

// The clients of a run: those that connect and disconnect, and behind them those that stay
// connected and have the shared subscriptions. The last one only receives Wills. The script
// is about the former two; all but comers are connected already.
const (
	transients   = 5
	sharers      = 2
	watcher      = transients + sharers
	totalClients = watcher + 1
)

// generator generates a script.
type generator struct {
	r        *rand.Rand
	versions [transients]byte // each client's usual version
	windows  [transients]uint16
	granted  [transients]byte // the QoS of all its subscriptions, where the version is not 5
	options  map[string]byte
	serial   int
}

// generate generates the script of a seed, of n random steps after all have connected.
func generate(seed uint64, n int) script {
	w := &generator{r: rand.New(rand.NewPCG(seed, 1)), options: map[string]byte{}}
	var s script
	for i := range transients {
		w.versions[i], w.granted[i] = 3+byte(w.r.IntN(3)), byte(w.r.IntN(3))
		if w.one(3) {
			w.windows[i] = 1 // Mosquitto 2.0.11 does not respect a larger one, nor one that changes
		}
		s = append(s, w.connect(i))
	}
	for range n {
		s = append(s, w.step())
	}
	return append(s, w.finalReconnect()...)
}

// finalReconnect connects every client once more, so that what is queued is delivered.
func (w *generator) finalReconnect() script {
	var s script
	for i := range transients {
		s = append(s, step{kind: stepConnect, client: i, version: w.versions[i], expiry: 3600, window: w.windows[i]})
	}
	return s
}

// step returns the next random step. The weights make most clients be connected and
// subscribed most of the time.
func (w *generator) step() step {
	client := w.r.IntN(transients)
	switch n := w.r.IntN(100); {
	case n < 38:
		return w.publish(client)
	case n < 56:
		return w.connect(client)
	case n < 70:
		return w.subscribe(client)
	case n < 74:
		return step{kind: stepUnsubscribe, client: client, filters: w.filters(client)}
	case n < 82:
		return w.share()
	case n < 88:
		return step{kind: stepLeave, client: client}
	case n < 90:
		return step{kind: stepLeaveWill, client: client}
	case n < 94:
		return step{kind: stepVanish, client: client}
	case n < 97:
		return step{kind: stepMute, client: client}
	default:
		return step{kind: stepHalf, client: client}
	}
}

func (w *generator) one(in int) bool { return w.r.IntN(in) == 0 }

func (w *generator) connect(client int) step {
	s := step{kind: stepConnect, client: client, version: w.versions[client], clean: w.one(3), window: w.windows[client]}
	if w.versions[client] < v5 && w.one(10) {
		s.version = 3 + byte(w.r.IntN(3))
	}
	if !w.one(4) {
		s.expiry = 3600
	}
	if w.one(2) {
		return s
	}
	will := w.message()
	will.topic, will.alias, will.expiry = fmt.Sprintf("will/%d", client), false, 0
	s.will = &will
	return s
}

func (w *generator) subscribe(client int) step {
	s := step{kind: stepSubscribe, client: client, filters: w.filters(client)}
	if w.one(2) {
		s.subID = 1 + uint32(w.r.IntN(200))
	}
	return s
}

// share subscribes or unsubscribes one of the clients that stay.
func (w *generator) share() step {
	s := step{kind: stepSubscribe, client: transients + w.r.IntN(sharers)}
	if w.one(4) {
		s.kind = stepUnsubscribe
	}
	f := scriptedFilter{share: "one", filter: "shared/a", qos: byte(w.r.IntN(3))}
	if w.one(2) {
		f.share, f.filter = "two", "shared/+"
	}
	s.filters = []scriptedFilter{f}
	return s
}

var (
	scriptedFilters = []string{"a/#", "a/b", "a/+", "+/b", "#", "a", "+", "b/+/c", "b/#", "a//", "will/+", "+/+/c"}
	scriptedTopics  = []string{"a", "a/b", "a/c", "b/b", "b/x/c", "b", "a//", "a/b/c", "shared/a", "shared/b"}
)

func (w *generator) filters(client int) []scriptedFilter {
	filters := make([]scriptedFilter, 1+w.r.IntN(3))
	for i, at := range w.r.Perm(len(scriptedFilters))[:len(filters)] {
		filters[i] = scriptedFilter{filter: scriptedFilters[at], qos: w.granted[client]}
		if w.versions[client] == v5 {
			filters[i].qos, filters[i].opts = byte(w.r.IntN(3)), w.opts(client, scriptedFilters[at])
		}
	}
	return filters
}

// opts returns random retain handling, and no local and retain as published: the same every
// time for a client and a filter, because Mosquitto 2.0.11 does not change them in an
// existing subscription.
func (w *generator) opts(client int, name string) byte {
	key := fmt.Sprint(client, name)
	if _, ok := w.options[key]; !ok {
		w.options[key] = bit(w.one(4), noLocal) | bit(w.one(3), retainAsPublished)
	}
	return w.options[key] | byte(w.r.IntN(3))<<4
}

func (w *generator) publish(client int) step {
	s := step{kind: stepPublish, client: client, messages: make([]scriptedMessage, 1+w.r.IntN(4))}
	for i := range s.messages {
		s.messages[i] = w.message()
		s.messages[i].qos = s.messages[0].qos // of different ones, the order is the broker's choice
	}
	return s
}

func (w *generator) message() scriptedMessage {
	w.serial++
	m := scriptedMessage{
		topic:   scriptedTopics[w.r.IntN(len(scriptedTopics))],
		payload: fmt.Sprintf("m%d", w.serial),
		qos:     byte(w.r.IntN(3)),
		retain:  w.one(4),
		props:   w.one(3),
		alias:   w.one(4),
	}
	if w.one(5) {
		m.expiry = 36_000
	}
	if m.retain && w.one(3) {
		m.payload = ""
	}
	return m
}
