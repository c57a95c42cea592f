package systemtest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// records returns all objects that the API shows, each as JSON with the path of its list: how
// often it exists. Clients and groups are in the export, with the hashes of passwords.
func (r *rehearsal) records(t *testing.T) map[string]int {
	t.Helper()
	all, in := map[string]int{}, r.api
	add := func(path string, list ...json.RawMessage) {
		for _, one := range list {
			all[path+" "+withoutState(t, one)]++
		}
	}
	var access struct { // a large document, which is decoded once
		Clients, Groups, Roles           []json.RawMessage
		DefaultACLAccess, AnonymousGroup json.RawMessage
	}
	in.must(t, "GET", in.at("/access/export"), nil, &access)
	add("clients", access.Clients...)
	add("groups", access.Groups...)
	add("roles", access.Roles...)
	add("access", access.DefaultACLAccess, access.AnonymousGroup)
	for _, path := range append(in.lists(), in.at("/streams"), in.at("/messages/retained"), in.inProject("/tokens"), in.at("/bridges/http-bridge/config")) {
		if path == in.at("/clients") || path == in.at("/groups") {
			continue
		}
		var list []json.RawMessage
		text := in.text(t, path)
		if json.Unmarshal([]byte(text), &list) != nil {
			list = []json.RawMessage{json.RawMessage(text)} // one object
		}
		add(path, list...)
	}
	return all
}

// lastSeen is when a user was last seen.
var lastSeen = regexp.MustCompile(`"last_seen":"[^"]*"`)

// withoutState returns a record without the counters of a stream, the last use of a token and when users
// were last seen.
func withoutState(t *testing.T, text json.RawMessage) string {
	t.Helper()
	var members map[string]json.RawMessage
	text = lastSeen.ReplaceAll(text, []byte(`"last_seen":null`))
	if !bytes.Contains(text, []byte(`"stats":{`)) && !bytes.Contains(text, []byte(`"last_used_date":`)) || json.Unmarshal(text, &members) != nil {
		return string(text)
	}
	delete(members, "stats")
	delete(members, "last_used_date")
	kept, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(kept)
}

// wantRecords checks that exactly the objects from before exist, and that passwords and tokens work.
func (r *rehearsal) wantRecords(t *testing.T) {
	t.Helper()
	want, got := r.before, r.records(t)
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
	defer func() { wantWithin(t, "the queues", server.all(t), least, most) }() // also where the wait ends the test
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
