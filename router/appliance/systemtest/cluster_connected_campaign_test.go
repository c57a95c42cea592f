package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// connectedLoad publishes at a broker from which a bridge takes the messages to the embedded brokers of the cluster or, if these
// share no messages, to a connected one. There a stream copies them to another topic, and another bridge delivers those to a
// server: all of them are on the way of each message.
type connectedLoad struct {
	*dataCampaign
	at        string // path of the connected broker; "" for the embedded ones
	source    *mosquittoPeer
	target    *httpPeer
	sending   *publishers // of the current phase
	phase     int         // messages of a phase have topics of their own
	delivered int         // messages of former phases
	repeated  int         // other deliveries
}

const (
	connectedTopics = 4  // of a phase
	afterFault      = 40 // messages that are sent after a fault, at least

	streamRegister = "register" // stream whose target is a register
)

// startConnectedLoad defines the bridges and the streams, and begins to publish.
func (s *dataCampaign) startConnectedLoad(t testing.TB) *connectedLoad {
	t.Helper()
	l := &connectedLoad{dataCampaign: s, source: newMosquittoPeer(t, "in"), target: startHTTPPeer(t)}
	first := s.machines[0]
	if s.mode == "dynsec" {
		_, l.at = first.addConnected(t)
	}
	at := l.path(t, first)
	first.change(t, "POST", at+"/streams", object{"streamname": "copies", "sourcetopic": "plant/#", "targettopic": "copies", "persist": true})
	first.change(t, "POST", at+"/streams", object{"streamname": streamRegister, "sourcetopic": "none", "targettopic": "", "active": false})
	delivery, document := l.target.bridge()
	document["connections"].([]object)[0]["topicMappings"].([]object)[0]["mqttTopics"] = []string{"copies"}
	document["schemaMappings"].([]object)[0]["mapping"].([]object)[0]["source"] = "jsonPayload.topic"
	first.change(t, "PUT", at+"/bridges/"+delivery+"/config", document)
	intake, document := l.source.bridge()
	first.change(t, "PUT", at+"/bridges/"+intake+"/config", document)
	l.publish(t)
	l.awaitSubscribed(t)
	return l
}

// path returns the path of the broker at a machine. Any embedded broker of a node does, and that of a node that has lost its data is none
// any more.
func (l *connectedLoad) path(t testing.TB, m *machine) string {
	t.Helper()
	if l.at != "" {
		return l.at
	}
	var all []struct {
		ID, Type string
		Status   struct{ Connected bool }
	}
	status, answer, err := m.api.do(t.Context(), "GET", m.api.inProject("/brokers"), nil)
	if err == nil && status == http.StatusOK && json.Unmarshal(answer, &all) == nil {
		for _, b := range all {
			if b.Type == "on-premise-setup" && b.Status.Connected {
				return m.api.inProject("/brokers/" + b.ID)
			}
		}
	}
	return m.api.at("") // which fails, too
}

// awaitSubscribed waits until the bridges and the stream take what is published: what is before that may go to none. It begins
// another phase.
func (l *connectedLoad) awaitSubscribed(t testing.TB) {
	t.Helper()
	suite.WaitFor(t, "messages come through bridges and stream", func() bool { return l.target.count(t) > 0 })
	last := l.sending.finish(t, l.sending.acknowledged()+connectedTopics)
	suite.WaitFor(t, "the last messages of all topics come", func() bool {
		got := l.target.all(t)
		for topic, n := range last {
			if !slices.ContainsFunc(got, func(a arrival) bool { return a.Topic == topic && a.N == n }) {
				return false
			}
		}
		return true
	})
	l.target.drain()
	l.publish(t)
}

// publish begins a phase.
func (l *connectedLoad) publish(t testing.TB) {
	t.Helper()
	l.phase++
	var topics []string
	for n := range connectedTopics {
		topics = append(topics, fmt.Sprintf("plant/%d/%d", l.phase, n))
	}
	l.sending = publishTo(t, l.source.entrance(), 1, topics)
}

// finish ends a phase: all messages that were acknowledged are delivered.
func (l *connectedLoad) finish(t testing.TB) {
	t.Helper()
	last, all := l.sending.finish(t, l.sending.acknowledged()+afterFault), 0
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Errorf("%d messages of phase %d are not delivered: %v", len(left), l.phase, clip(left))
		}
	}()
	waitLong(t, "all messages are delivered", func() bool {
		left = missing(l.target.all(t), last)
		return len(left) == 0
	})
	for _, n := range last {
		all += n
	}
	l.delivered += all
	l.repeated += len(l.target.drain()) - all
}

// duringFaults has messages of a phase published while a fault happens, and delivered afterwards. A node that loses its data loses
// what waits there: before that, all is delivered.
func (l *connectedLoad) duringFaults(all []fault) []fault {
	all = slices.Clone(all)
	for i, f := range all {
		happen := f.happen
		all[i].happen = func(t testing.TB, s *faultCampaign) time.Duration {
			if f.losesData {
				l.finish(t)
				took := happen(t, s)
				l.publish(t)
				return took
			}
			took := happen(t, s)
			l.finish(t)
			l.publish(t)
			return took
		}
	}
	return all
}

// report logs what was delivered.
func (l *connectedLoad) report(t testing.TB) {
	t.Helper()
	t.Logf("%d acknowledged messages went through bridges and a stream; %d came again", l.delivered, l.repeated)
}
