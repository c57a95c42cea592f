package systemtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// records returns all objects that the API shows, each as JSON with the path of its list: how
// often it is there. It leaves out what is not stored.
func (r *rehearsal) records(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, path := range r.api.lists() {
		if path != r.api.at("/clients") { // which is read in pages
			addRecords(t, all, path, r.api.text(t, path))
		}
	}
	for _, path := range []string{r.api.at("/access/export"), r.api.at("/streams"), r.api.at("/bridges/http-bridge/config"), r.api.inProject("/tokens")} {
		addRecords(t, all, path, r.api.text(t, path))
	}
	for _, path := range []string{r.api.at("/clients"), r.api.at("/messages/retained")} {
		r.walk(t, path, func(page string) { addRecords(t, all, path, page) })
	}
	return all
}

// walk reads a list in pages.
func (r *rehearsal) walk(t *testing.T, path string, take func(page string)) {
	t.Helper()
	const size = 5000
	for offset := 0; ; offset += size {
		page := r.api.text(t, fmt.Sprintf("%s?offset=%d&count=%d", path, offset, size))
		if strings.TrimSpace(page) == "[]" {
			return
		}
		take(page)
	}
}

// addRecords adds the objects of a list, or the members of an object, which may be lists.
func addRecords(t *testing.T, all map[string]int, path, text string) {
	t.Helper()
	var list []json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil {
		for _, one := range list {
			all[path+" "+withoutState(t, one)]++
		}
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatalf("%s: %v: %.200s", path, err, text)
	}
	for name, value := range members {
		if err := json.Unmarshal(value, &list); err == nil && len(list) > 0 {
			addRecords(t, all, path+" "+name, string(value))
		} else {
			all[path+" "+name+" "+string(value)]++
		}
	}
}

// withoutState returns a record without the counters of a stream and the connections of a client.
func withoutState(t *testing.T, text json.RawMessage) string {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return string(text)
	}
	delete(members, "stats")
	if members["username"] != nil {
		delete(members, "connections")
	}
	kept, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(kept)
}

// wantRecords checks that exactly the objects of an earlier moment exist, and that passwords and tokens work.
func (r *rehearsal) wantRecords(t *testing.T, want map[string]int) {
	t.Helper()
	got := r.records(t)
	lost, stray := lacking(want, got), lacking(got, want)
	if len(lost)+len(stray) > 0 {
		t.Errorf("of %d objects %d are lost, and there are %d others:\n%.3000s\n%.3000s", len(want), len(lost), len(stray),
			strings.Join(clip(lost), "\n"), strings.Join(clip(stray), "\n"))
	}
	r.api.wantPopulated(t, r.run, r.made)
	mqtttest.Join(t, r.mqtt, "client-000000", passwordOf("client-000000"))
	t.Logf("%d objects are as before", len(want)-len(lost))
}

// lacking returns, in order, what one has more often than another.
func lacking(one, other map[string]int) (list []string) {
	for record, n := range one {
		if other[record] < n {
			list = append(list, record)
		}
	}
	slices.Sort(list)
	return list
}

// wantInQueues makes the bridges' server reachable until all queues are empty. What arrives are the
// messages that were queued, once each: of each topic from the first one to at least one and at most another.
func (r *rehearsal) wantInQueues(t *testing.T, least, most map[string]int) {
	t.Helper()
	queued := 0
	for _, s := range r.bridgeStatus(t) {
		if s.QueuedMessages == 0 {
			t.Error("nothing is queued for a bridge")
		}
		queued += s.QueuedMessages
	}
	server := &httpPeer{address: r.target}
	server.start(t)
	defer server.stop(t)
	suite.WaitFor(t, "nothing is queued", func() bool {
		return !slices.ContainsFunc(r.bridgeStatus(t), func(s bridgeStatus) bool { return s.QueuedMessages > 0 })
	})
	for _, s := range r.bridgeStatus(t) {
		if s.Stats.Dropped+s.Stats.Rejected+s.Stats.DeadLetters > 0 {
			t.Errorf("status of a bridge in the end: %+v", s)
		}
	}
	if n := server.count(t); n != queued {
		t.Errorf("%d messages arrived, and %d were queued", n, queued)
	}
	wantWithin(t, "the queues", server.all(t), least, most)
}

func (r *rehearsal) bridgeStatus(t *testing.T) (list []bridgeStatus) {
	t.Helper()
	if r.api.must(t, "GET", r.api.at("/bridges/http-bridge/status"), nil, &list); len(list) != rehearsalBridges {
		t.Fatalf("%d bridges, want %d", len(list), rehearsalBridges)
	}
	return list
}

// wantWithin checks that of each topic all messages are there, from the first one to at least one
// and at most another. It returns the last ones.
func wantWithin(t *testing.T, where string, list []arrival, least, most map[string]int) map[string]int {
	t.Helper()
	last := map[string]int{}
	for _, a := range list {
		last[a.Topic] = max(last[a.Topic], a.N)
	}
	found := compare(list, last)
	for topic, n := range least {
		if last[topic] < n {
			found.report("%s: the last is %d, and %d was acknowledged in time", topic, last[topic], n)
		}
	}
	for topic, n := range last {
		if n > most[topic] {
			found.report("%s: the last is %d, and only %d can have been sent", topic, n, most[topic])
		}
	}
	for _, violation := range found.violations {
		t.Errorf("%s: %s", where, violation)
	}
	t.Logf("%s: %d messages of %d topics", where, len(list), len(last))
	return last
}
