package apitest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
)

// makeStream creates a stream from these members.
func makeStream(t *testing.T, api *apitest.API, body object) {
	t.Helper()
	api.Root.Post(api.At("/streams"), body).Want(204)
}

// storingStream is a stream that stores the messages below a topic.
func storingStream(name, source string) object {
	return object{"streamname": name, "sourceTopic": source, "persist": true}
}

// streamOf returns the record of a stream.
func streamOf(api *apitest.API, name string) (s broker.Stream) {
	api.Root.Get(api.At("/streams/detail?streamname=" + name)).Want(200).Decode(&s)
	return s
}

// countOf returns how many messages a stream stores.
func countOf(api *apitest.API, name string) int64 {
	var c broker.StreamCount
	api.Root.Get(api.At("/streams/messages/count?streamname=" + name)).Want(200).Decode(&c)
	return c.Count
}

// fill publishes messages that a stream stores, the payloads 1, 2, … in order. Each is
// stored when it is acknowledged. It returns a time in Unix seconds before each of
// them.
func fill(t *testing.T, d *mqtttest.Client, topic string, n int) (before []float64) {
	t.Helper()
	tick := func() int64 {
		from := time.Now().UnixMilli()
		waitFor(t, "the clock to go on", func() bool { return time.Now().UnixMilli() > from })
		return from
	}
	for i := range n {
		tick()
		before = append(before, float64(tick())/1000)
		if code := d.Publish(topic, fmt.Sprint(i+1), 1); code >= 0x80 {
			t.Fatalf("message %d on %s: refused with %#x", i+1, topic, code)
		}
	}
	return before
}

// noReplay waits for the end of a replay.
func noReplay(t *testing.T, api *apitest.API, name string) {
	t.Helper()
	waitFor(t, "the end of the replay of "+name, func() bool { return !streamOf(api, name).Replaying })
}

// TestStreamRates measures the messages that streams receive, in a page of the list.
func TestStreamRates(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	publisher := join(t, api, 5, "p", asAdmin)
	makeStream(t, api, storingStream("busy", "in/#"))
	makeStream(t, api, storingStream("idle", "quiet"))
	makeStream(t, api, object{"streamname": "off", "sourceTopic": "in/#", "active": false})
	publisher.Publish("quiet", "x", 1) // before the measurement
	viewer := api.Token("viewer")
	read := func(query string) (list []broker.Stream) {
		viewer.Get(api.At("/streams" + query)).Want(200).Decode(&list)
		return list
	}
	for _, s := range read("?rates=false") {
		if s.Rate != nil {
			t.Errorf("not asked for: %+v", s)
		}
	}
	if s := streamOf(api, "busy"); s.Rate != nil {
		t.Errorf("not asked for: %+v", s)
	}
	for query, want := range map[string]string{"?rates=true": "busy: true, idle: false, off: false, ", "?rates=true&offset=1&count=1": "idle: false, ",
		"?rates=true&count=0": "", "?rates=true&offset=3": ""} {
		for got := "none"; got != want; {
			list := while(func() { publisher.Publish("in/a", "x", 1) }, func() []broker.Stream { return read(query) })
			got = ""
			for _, s := range list {
				if s.Rate == nil || *s.Rate < 0 {
					t.Fatalf("%s: no rate in %+v", query, s)
				}
				got += fmt.Sprintf("%s: %t, ", s.StreamName, *s.Rate > 0)
			}
			if got != want {
				t.Logf("%s: got %q, want %q", query, got, want) // the publisher may not have had the time
			}
		}
	}
	var names []string
	if viewer.Get(api.At("/streams?rates=true&verbose=false")).Want(200).Decode(&names); strings.Join(names, " ") != "busy idle off" {
		t.Errorf("the names: %q", names)
	}
	viewer.Get(api.At("/streams?rates=perhaps")).WantError(400, "INVALID_REQUEST")
}

// TestStreams covers the life cycle of a stream: operations 9 to 14 as a viewer.
func TestStreams(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	viewer, at := api.Token("viewer"), api.At
	d, p := join(t, api, 5, "reader", asAdmin), join(t, api, 5, "writer", asAdmin)
	d.SubscribeTo(filter("out", 2), filter("again", 0))

	viewer.Post(at("/streams"), object{"streamname": "hall 3", "sourceTopic": "plant/+/raw", "targetTopic": "out", "targetqos": 1,
		"ttl": 86400, "textname": "Hall", "textdescription": "of machines", "key": "k", "persist": true, "query": object{
			"select": []object{{"source": "[speed]", "target": "[data][max]", "alias": "max", "function": object{"name": "max"}}, {"source": "[loc]", "target": "[loc]"}},
			"where":  []object{{"operator": "==", "left": "[loc]", "right": "Hall 3"}}}}).Want(204)
	for _, payload := range []string{`{"speed":2.50,"loc":"Hall 3"}`, `{"speed":9,"loc":"Hall 4"}`, `no JSON`, `{"speed":1,"loc":"Hall 3"}`} {
		p.Publish("plant/7/raw", payload, 0)
	}
	for range 2 {
		if pk := d.WantMessage("out", `{"data":{"max":2.50},"loc":"Hall 3"}`); pk.QoS != 1 {
			t.Errorf("republished with QoS %d, want 1", pk.QoS)
		} else {
			d.Acknowledge(packet.Puback, pk.ID)
		}
	}
	waitFor(t, "both messages to be kept", func() bool { // counted only after they exist
		s := streamOf(api, "hall%203").Stats
		return countOf(api, "hall%203") == 2 && s.Persisted == 2 && s.Republished == 2
	})

	viewer.Put(at("/streams/replay"), object{"streamname": "hall 3", "replayTopic": "again", "gte": "", "lte": "", "reverse": false, "limit": -1, "speed": 0}).Want(204)
	for range 2 {
		d.WantMessage("again", `{"data":{"max":2.50},"loc":"Hall 3"}`)
	}
	noReplay(t, api, "hall%203")
	s := streamOf(api, "hall%203")
	if got := *s.Stats; got.Received != 4 || got.Republished != 2 || got.Persisted != 2 || got.Filtered != 1 || got.Invalid != 1 || got.Replayed != 2 || got.Dropped != 0 || got.Messages != 2 {
		t.Errorf("stats: got %+v", got)
	}
	viewer.Delete(at("/streams/messages?streamname=hall%203")).Want(204)
	if n := countOf(api, "hall%203"); n != 0 {
		t.Errorf("%d messages are left after all were deleted", n)
	}
	viewer.Put(at("/streams"), object{"streamname": "hall 3", "active": false}).Want(204)
	p.Publish("plant/7/raw", `{"speed":2.50,"loc":"Hall 3"}`, 1)
	if got := streamOf(api, "hall%203"); got.Active || got.Stats.Received != 4 {
		t.Errorf("a stream that is not active: %+v, %+v", got, got.Stats)
	}
	viewer.Delete(at("/streams?streamname=hall%203")).Want(204)
	viewer.Delete(at("/streams?streamname=hall%203")).WantError(404, "NOT_FOUND")
	if got := strings.TrimSpace(string(viewer.Get(at("/streams")).Want(200).Body)); got != "[]" {
		t.Errorf("streams are left: %s", got)
	}
}

// TestStreamList pages through streams, as records and as names.
func TestStreamList(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	names := []string{"a", "b", "c", "d"}
	for _, name := range []string{"c", "a", "d", "b"} {
		makeStream(t, api, object{"streamname": name, "sourceTopic": "of/" + name})
	}
	for query, want := range map[string][]string{
		"": names, "?offset=0&count=-1&verbose=true": names, "?offset=1&count=2": names[1:3], "?offset=3&count=9": names[3:],
		"?offset=9": {}, "?count=0": {}, "?verbose=false": names, "?verbose=false&offset=2": names[2:], "?verbose=false&count=0": {},
	} {
		answer := api.Root.Get(api.At("/streams" + query)).Want(200)
		if total := answer.Header.Get("X-Total-Count"); total != "4" {
			t.Errorf("%q: X-Total-Count %s, want 4", query, total)
		}
		got := []string{}
		if strings.Contains(query, "verbose=false") {
			answer.Decode(&got)
		} else {
			var records []broker.Stream
			answer.Decode(&records)
			for _, r := range records {
				got = append(got, r.StreamName)
				if r.SourceTopic != "of/"+r.StreamName || r.Stats == nil {
					t.Errorf("%q: record %+v", query, r)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"offset=-1", "count=-2", "offset=x", "verbose=maybe"} {
		if got := api.Root.Get(api.At("/streams?"+query)).WantError(400, "INVALID_REQUEST").Fields(); len(got) != 1 || got[0] != "query."+strings.Split(query, "=")[0] {
			t.Errorf("%s: bad fields %q", query, got)
		}
	}
}

// TestStreamRecord has all members, of the specified types.
func TestStreamRecord(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	makeStream(t, api, object{"streamname": "s", "sourceTopic": "in"})
	var members map[string]json.RawMessage
	api.Root.Get(api.At("/streams/detail?streamname=s")).Want(200).Decode(&members)
	delete(members, "stats")
	got, err := json.Marshal(members) // in order of names
	if err != nil {
		t.Fatal(err)
	}
	want := `{"active":true,"key":"","persist":false,"process":false,"query":{},"replaying":false,"sourcetopic":"in","streamname":"s",` +
		`"targetqos":-1,"targettopic":"","textdescription":"","textname":"","ttl":0}`
	if string(got) != want {
		t.Errorf("defaults:\ngot  %s\nwant %s", got, want)
	}
	makeStream(t, api, object{"streamname": "q", "sourceTopic": "in", "query": object{"select": []object{{"source": "[a]", "target": "[a]"}}}})
	if !streamOf(api, "q").Process {
		t.Error("process is false by default with a query")
	}

	api.Root.Put(api.At("/streams"), object{"streamname": "s", "persist": true}).Want(204)
	fill(t, join(t, api, 5, "writer", asAdmin), "in", 2)
	begun := time.Now().UnixMilli()
	api.Root.Put(api.At("/streams/replay"), object{"streamname": "s", "replayTopic": "again", "speed": 1e-9, "limit": 5}).Want(204)
	waitFor(t, "the first message to be replayed", func() bool { s := streamOf(api, "s"); return s.Replay != nil && s.Replay.Sent == 1 })
	s := streamOf(api, "s")
	if now := time.Now().UnixMilli(); s.Replay.StartedAt < begun || s.Replay.StartedAt > now {
		t.Errorf("startedAt %d is not between %d and %d", s.Replay.StartedAt, begun, now)
	}
	s.Replay.StartedAt = 0
	if diff := cmp.Diff(&broker.StreamProgress{ReplayTopic: "again", Sent: 1, Total: 2, Speed: 1e-9}, s.Replay); diff != "" || !s.Replaying {
		t.Errorf("replaying %v, progress (-want +got):\n%s", s.Replaying, diff)
	}
}

// TestUpdateStream merges, or replaces.
func TestUpdateStream(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	full := object{"streamname": "s", "sourceTopic": "in", "targetTopic": "out", "targetqos": 2, "ttl": 60, "key": "k", "textname": "n", "textdescription": "d",
		"persist": true, "query": object{"select": []object{{"source": "[a]", "target": "[a]"}}}}
	makeStream(t, api, full)
	want := streamOf(api, "s")
	if want.SourceTopic != "in" || want.TargetTopic != "out" || want.TargetQoS != 2 || want.TTL != 60 || want.Key != "k" || want.TextName != "n" ||
		want.TextDescription != "d" || !want.Persist || !want.Process || !want.Active {
		t.Fatalf("created: got %+v", want)
	}
	wantStream := func(what string) {
		t.Helper()
		if diff := cmp.Diff(want, streamOf(api, "s")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	put := func(body any) { t.Helper(); api.Root.Put(api.At("/streams"), body).Want(204) }

	put(object{"streamname": "s"})
	wantStream("nothing given")
	put(object{"streamname": "s", "sourcetopic": "other/#", "ttl": 0, "replace": false})
	want.SourceTopic, want.TTL = "other/#", 0
	wantStream("the specified spelling")
	put(object{"streamname": "s", "sourceTopic": "in/#", "targetTopic": "", "process": false})
	want.SourceTopic, want.TargetTopic, want.Process = "in/#", "", false
	wantStream("the other spelling")
	record := streamOf(api, "s")
	put(record)
	wantStream("the record sent back")
	put(object{"streamname": "s", "sourcetopic": "in", "replace": true})
	want = broker.Stream{StreamName: "s", SourceTopic: "in", TargetQoS: -1, Active: true, Query: json.RawMessage(`{}`), Stats: want.Stats}
	wantStream("replaced")
	if got := api.Root.Put(api.At("/streams"), object{"streamname": "s", "ttl": 5, "replace": true}).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{"body.sourcetopic"}) {
		t.Errorf("replaced without a source: bad fields %q", got)
	}
	wantStream("refused")
	api.Root.Post(api.At("/streams"), object{"streamname": "lower", "sourcetopic": "in", "targettopic": "x"}).Want(204)
	if got := streamOf(api, "lower"); got.SourceTopic != "in" || got.TargetTopic != "x" {
		t.Errorf("created in lower case: %+v", got)
	}
}

// TestReplayStream tries every member of a replay.
func TestReplayStream(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	makeStream(t, api, storingStream("s", "in"))
	d, p := join(t, api, 5, "reader", asAdmin), join(t, api, 5, "writer", asAdmin)
	d.SubscribeTo(filter("again", 0))
	before := fill(t, p, "in", 4)
	text := func(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }
	for name, c := range map[string]struct {
		members object
		want    string
	}{
		"nothing":            {object{}, "1234"},
		"all open":           {object{"gte": "", "lte": "", "limit": -1, "speed": 0, "reverse": false}, "1234"},
		"from":               {object{"gte": text(before[2])}, "34"},
		"until, a number":    {object{"lte": before[2]}, "12"},
		"between":            {object{"gte": before[1], "lte": text(before[3])}, "23"},
		"limit":              {object{"limit": 3}, "123"},
		"limit of none":      {object{"limit": 0}, ""},
		"reverse":            {object{"reverse": true, "limit": 2}, "43"},
		"original":           {object{"speed": "original"}, "1234"},
		"fastest":            {object{"speed": "fastest"}, "1234"},
		"a factor":           {object{"speed": 2.5}, "1234"},
		"the other spelling": {object{"replaytopic": "again"}, "1234"},
	} {
		body := object{"streamname": "s", "replayTopic": "again"}
		if c.members["replaytopic"] != nil {
			delete(body, "replayTopic")
		}
		for k, v := range c.members {
			body[k] = v
		}
		api.Root.Put(api.At("/streams/replay"), body).Want(204)
		noReplay(t, api, "s")
		d.Send(packet.Packet{Type: packet.Pingreq})
		got := ""
		for pk := d.Want(packet.Publish, packet.Pingresp); pk.Type == packet.Publish; pk = d.Want(packet.Publish, packet.Pingresp) {
			got += string(pk.Payload)
			if pk.Topic != "again" || pk.Retain {
				t.Errorf("%s: replayed to %s, RETAIN %v", name, pk.Topic, pk.Retain)
			}
		}
		if got != c.want {
			t.Errorf("%s: replayed %q, want %q", name, got, c.want)
		}
	}
}

// TestStopStreamReplay has one replay at a time, until it is stopped.
func TestStopStreamReplay(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	viewer := api.Token("viewer")
	makeStream(t, api, storingStream("s", "in"))
	fill(t, join(t, api, 5, "writer", asAdmin), "in", 2)
	stop := api.At("/streams/replay?streamname=s")
	viewer.Delete(stop).WantError(400, "CONFLICT")
	slow := object{"streamname": "s", "replayTopic": "again", "speed": 1e-9}
	viewer.Put(api.At("/streams/replay"), slow).Want(204)
	viewer.Put(api.At("/streams/replay"), slow).WantError(400, "CONFLICT")
	viewer.Delete(stop).Want(204)
	if s := streamOf(api, "s"); s.Replaying || s.Replay != nil {
		t.Errorf("stopped: %+v, %+v", s, s.Replay)
	}
	viewer.Put(api.At("/streams/replay"), slow).Want(204)
	viewer.Delete(api.At("/streams?streamname=s")).Want(204) // and its replay
	viewer.Delete(stop).WantError(404, "NOT_FOUND")
}

// TestClearStreamRange deletes by time.
func TestClearStreamRange(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	makeStream(t, api, storingStream("s", "in"))
	d, p := join(t, api, 5, "reader", asAdmin), join(t, api, 5, "writer", asAdmin)
	d.SubscribeTo(filter("again", 0))
	before := fill(t, p, "in", 5)
	editor, path := api.Token("editor"), api.At("/streams/messages/range?streamname=s")
	api.Token("viewer").Delete(path+"&gte=1").WantError(403, "FORBIDDEN")
	editor.Delete(path).WantError(400, "INVALID_REQUEST")
	if n := countOf(api, "s"); n != 5 {
		t.Fatalf("%d messages are left of 5, though no time was given", n)
	}
	editor.Delete(fmt.Sprintf("%s&gte=%.3f&lte=%.3f", path, before[1], before[2])).Want(204) // the second
	editor.Delete(fmt.Sprintf("%s&gte=%.3f&lte=", path, before[4])).Want(204)                // the last
	if n := countOf(api, "s"); n != 3 {
		t.Errorf("%d messages are left, want 3", n)
	}
	editor.Put(api.At("/streams/replay"), object{"streamname": "s", "replayTopic": "again", "speed": "fastest"}).Want(204)
	for _, payload := range []string{"1", "3", "4"} {
		d.WantMessage("again", payload)
	}
	editor.Delete(fmt.Sprintf("%s&lte=%.3f", path, before[4])).Want(204)
	if n := countOf(api, "s"); n != 0 {
		t.Errorf("%d messages are left, want none", n)
	}
}
