package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// fakeStreams is a broker with these streams, in order of their names. It records its calls.
type fakeStreams struct {
	broker.NoStreams
	streams []broker.Stream
	log     []string
}

func newFakeStreams() *fakeStreams {
	s := &fakeStreams{}
	for i := range 4 {
		s.streams = append(s.streams, broker.Stream{StreamName: fmt.Sprint("s", i), SourceTopic: "a/<#>", TargetQoS: -1, Active: true, Query: json.RawMessage(`{}`)})
	}
	return s
}

func (s *fakeStreams) note(name, what string) error {
	if _, err := s.GetStream(context.Background(), name); err != nil {
		return err
	}
	s.log = append(s.log, name+" "+what)
	return nil
}

// definition returns a definition with what its pointers point to.
func definition(s broker.StreamSpec) string {
	return strings.TrimSuffix(strings.TrimPrefix(string(encode(s)), `{"StreamName":"`+s.StreamName+`",`), "}")
}

func seconds(f *float64) string {
	if f == nil {
		return "open"
	}
	return fmt.Sprint(*f)
}

func (s *fakeStreams) ListStreams(_ context.Context, o broker.ListOptions[broker.Stream]) (broker.Page[broker.Stream], error) {
	from := min(o.Offset, len(s.streams))
	to := len(s.streams)
	if o.Count >= 0 {
		to = min(to, from+o.Count)
	}
	return broker.Page[broker.Stream]{Total: len(s.streams), Items: func(yield func(broker.Stream, error) bool) {
		for _, one := range s.streams[from:to] {
			if !yield(one, nil) {
				return
			}
		}
	}}, nil
}

func (s *fakeStreams) GetStream(_ context.Context, name string) (broker.Stream, error) {
	i := slices.IndexFunc(s.streams, func(one broker.Stream) bool { return one.StreamName == name })
	if i < 0 {
		return broker.Stream{}, &broker.Error{Kind: broker.NotFound, Msg: "there is no such stream"}
	}
	return s.streams[i], nil
}

func (s *fakeStreams) CreateStream(_ context.Context, spec broker.StreamSpec) error {
	if _, err := s.GetStream(context.Background(), spec.StreamName); err == nil {
		return &broker.Error{Kind: broker.Exists, Msg: "the name is taken"}
	}
	if *spec.SourceTopic == "$bad" {
		return &broker.Error{Kind: broker.Invalid, Msg: "sourcetopic must not begin with $", Fields: []broker.Field{{Path: "sourcetopic"}}}
	}
	s.log = append(s.log, spec.StreamName+" created "+definition(spec))
	return nil
}

func (s *fakeStreams) ModifyStream(_ context.Context, spec broker.StreamSpec, replace bool) error {
	return s.note(spec.StreamName, fmt.Sprintf("modified %v %s", replace, definition(spec)))
}
func (s *fakeStreams) DeleteStream(_ context.Context, name string) error {
	return s.note(name, "deleted")
}
func (s *fakeStreams) CountStreamMessages(_ context.Context, name string) (broker.StreamCount, error) {
	return broker.StreamCount{StreamName: name, Count: 1 << 40}, s.note(name, "counted")
}
func (s *fakeStreams) ClearStreamMessages(_ context.Context, name string, gte, lte *float64) error {
	return s.note(name, "cleared "+seconds(gte)+" "+seconds(lte))
}
func (s *fakeStreams) ReplayStream(_ context.Context, r broker.StreamReplay) error {
	return s.note(r.StreamName, fmt.Sprint("replayed ", r.ReplayTopic, " ", seconds(r.GTE), " ", seconds(r.LTE), " ", r.Reverse, r.Limit, r.Speed))
}
func (s *fakeStreams) StopStreamReplay(_ context.Context, name string) error {
	if name == "s3" {
		return &broker.Error{Kind: broker.Conflict, Msg: "no replay runs"}
	}
	return s.note(name, "stopped")
}

func licensed(context.Context) (broker.License, error) {
	return broker.License{IssuedBy: "us", IssuedTo: "you", ValidSince: 1, ValidUntil: 2}, nil
}

// wantDone sends each command and compares the calls of the fakeStreams; a command that is
// refused must make none.
func wantDone(t *testing.T, commands [][2]string) {
	t.Helper()
	for _, c := range commands {
		s := newFakeStreams()
		got := string(Streams(t.Context(), s, licensed, []byte(`{"commands":[`+c[0]+`]}`)))
		done := strings.Join(s.log, ";")
		if done == "" {
			var m struct{ Responses []response }
			if err := json.Unmarshal([]byte(got), &m); err != nil || len(m.Responses) == 0 {
				t.Fatalf("%s: answered %s", c[0], got)
			}
			done = "refused: " + m.Responses[0].Error
		}
		if done != c[1] {
			t.Errorf("%s:\ngot  %s\nwant %s\nanswered %s", c[0], done, c[1], got)
		}
	}
}

const nothing = `"SourceTopic":null,"TargetTopic":null,"TargetQoS":null,"TTL":null,"Key":null,"TextName":null,"TextDescription":null,`

func TestStreams_definitions(t *testing.T) {
	t.Parallel()
	all := `"SourceTopic":"a/+","TargetTopic":"b","TargetQoS":2,"TTL":86400,"Key":"k","TextName":"n","TextDescription":"d","Active":false,"Process":true,"Persist":true,"Query":{"where":[{"right":2.50}]}`
	rest := `"textname":"n","textdescription":"d","key":"k","targetqos":2,"ttl":86400,"active":false,"process":true,"persist":true,"query":{"where": [{"right": 2.50}]}}`
	wantDone(t, [][2]string{
		{`{"command":"createStream","streamname":"n","sourcetopic":"a/+","targettopic":"b",` + rest, "n created " + all},
		{`{"command":"CREATESTREAM","StreamName":"n","sourceTopic":"a/+","targetTopic":"b",` + rest, "n created " + all},
		{`{"command":"createStream","streamname":"n","sourcetopic":"a","ttl":null,"query":null}`,
			`n created "SourceTopic":"a",` + strings.TrimPrefix(nothing, `"SourceTopic":null,`) + `"Active":null,"Process":null,"Persist":null,"Query":null`},
		{`{"command":"createStream","streamname":"n","sourcetopic":"a","SourceTopic":"b","ttl":1,"TTL":"x"}`,
			`n created "SourceTopic":"a","TargetTopic":null,"TargetQoS":null,"TTL":1,"Key":null,"TextName":null,"TextDescription":null,"Active":null,"Process":null,"Persist":null,"Query":null`},
		{`{"command":"createStream","sourcetopic":"a"}`, "refused: Invalid/missing streamname"},
		{`{"command":"createStream","streamname":"","sourcetopic":"a"}`, "refused: Invalid/missing streamname"},
		{"{\"command\":\"createStream\",\"streamname\":\"\xff\",\"sourcetopic\":\"a\"}", "refused: Invalid/missing streamname"},
		{`{"command":"createStream","streamname":"n"}`, "refused: Invalid/missing sourcetopic"},
		{`{"command":"createStream","streamname":"n","sourcetopic":5}`, "refused: Invalid/missing sourcetopic"},
		{"{\"command\":\"createStream\",\"streamname\":\"n\",\"sourcetopic\":\"\xff\"}", "refused: Invalid/missing sourcetopic"},
		{`{"command":"createStream","streamname":"n","sourcetopic":"a","targetqos":"1"}`, "refused: Invalid/missing targetqos"},
		{`{"command":"createStream","streamname":"n","sourcetopic":"a","targetqos":1.5}`, "refused: Invalid/missing targetqos"},
		{`{"command":"createStream","streamname":"n","sourcetopic":"a","ttl":1e30}`, "refused: Invalid/missing ttl"},
		{`{"command":"createStream","streamname":"n","sourcetopic":"a","query":[]}`, "refused: Invalid/missing query"},
		{"{\"command\":\"createStream\",\"streamname\":\"n\",\"sourcetopic\":\"a\",\"query\":{\"x\":\"\xff\"}}", "refused: Invalid/missing query"},
		{`{"command":"createStream","streamname":"n","sourcetopic":"a","active":1}`, "refused: Invalid/missing active"},
		{`{"command":"createStream","streamname":"n","sourcetopic":"$bad"}`, "refused: sourcetopic must not begin with $"},
		{`{"command":"createStream","streamname":"s1","sourcetopic":"a"}`, "refused: Stream already exists"},
		{`{"command":"modifyStream","streamname":"s1"}`, `s1 modified false ` + nothing + `"Active":null,"Process":null,"Persist":null,"Query":null`},
		{`{"command":"modifyStream","streamname":"s1","replace":true,"sourceTopic":"a/+","targettopic":"b",` + rest, "s1 modified true " + all},
		{`{"command":"modifyStream","streamname":"s1","replace":"true"}`, "refused: Invalid/missing replace"},
		{`{"command":"modifyStream","streamname":"s9"}`, "refused: Stream not found"},
		{`{"command":"enableStream","streamname":"s1"}`, `s1 modified false ` + nothing + `"Active":true,"Process":null,"Persist":null,"Query":null`},
		{`{"command":"disableStream","streamname":"s1"}`, `s1 modified false ` + nothing + `"Active":false,"Process":null,"Persist":null,"Query":null`},
		{`{"command":"deleteStream","streamname":"s1"}`, "s1 deleted"},
		{`{"command":"deleteStream","streamname":"s9"}`, "refused: Stream not found"},
	})
}

func TestStreams_messages(t *testing.T) {
	t.Parallel()
	wantDone(t, [][2]string{
		{`{"command":"clearStreamMessages","streamname":"s1"}`, "s1 cleared open open"},
		{`{"command":"clearStreamMessages","streamname":"s1","gte":"","lte":null}`, "s1 cleared open open"},
		{`{"command":"clearStreamMessages","streamname":"s1","gte":4102444800,"lte":"4102444800.25"}`, "s1 cleared 4.1024448e+09 4.10244480025e+09"},
		{`{"command":"clearStreamMessages","streamname":"s1","gte":"today"}`, "refused: Invalid/missing gte"},
		{`{"command":"clearStreamMessages","streamname":"s1","lte":"inf"}`, "refused: Invalid/missing lte"},
		{`{"command":"clearStreamMessages","streamname":"s1","lte":[]}`, "refused: Invalid/missing lte"},
		{`{"command":"clearStreamMessages","gte":1}`, "refused: Invalid/missing streamname"},
		{`{"command":"replayStream","streamname":"s1","replaytopic":"r"}`, "s1 replayed r open open false -1 1"},
		{`{"command":"replayStream","streamname":"s1","replayTopic":"r","gte":1.5,"lte":"2.5","limit":7,"reverse":true,"speed":2.5}`, "s1 replayed r 1.5 2.5 true 7 2.5"},
		{`{"command":"replayStream","streamname":"s1","replaytopic":"r","speed":"Fastest","limit":5000000000}`, "s1 replayed r open open false 5000000000 0"},
		{`{"command":"replayStream","streamname":"s1","replaytopic":"r","speed":"original"}`, "s1 replayed r open open false -1 1"},
		{`{"command":"replayStream","streamname":"s1","replaytopic":"r","speed":0}`, "s1 replayed r open open false -1 0"},
		{`{"command":"replayStream","streamname":"s1","replaytopic":"r","speed":"slow"}`, "refused: Invalid/missing speed"},
		{`{"command":"replayStream","streamname":"s1","replaytopic":"r","speed":true}`, "refused: Invalid/missing speed"},
		{`{"command":"replayStream","streamname":"s1","replaytopic":"r","limit":"1"}`, "refused: Invalid/missing limit"},
		{`{"command":"replayStream","streamname":"s1"}`, "refused: Invalid/missing replaytopic"},
		{`{"command":"replayStream","streamname":"s9","replaytopic":"r"}`, "refused: Stream not found"},
		{`{"command":"stopStreamReplay","streamname":"s1"}`, "s1 stopped"},
		{`{"command":"stopStreamReplay","streamname":"s3"}`, "refused: no replay runs"},
	})
}

func TestStreams_answers(t *testing.T) {
	t.Parallel()
	s := newFakeStreams()
	record := func(i int) string {
		return fmt.Sprintf(`"streamname":"s%d","sourcetopic":"a/<#>","targettopic":"","targetqos":-1,"ttl":0,"key":"","textname":"","textdescription":"","active":true,"process":false,"persist":false,"replaying":false,"query":{}`, i)
	}
	wantResponses(t, func(p []byte) []byte { return Streams(t.Context(), s, licensed, p) }, [][2]string{
		{`{"command":"getStream","streamname":"s1","correlationData":"x"}`, `{"command":"getStream","data":{` + record(1) + `,"stream":{` + record(1) + `}},"correlationData":"x"}`},
		{`{"command":"getStream","streamname":"s9"}`, `{"command":"getStream","error":"Stream not found"}`},
		{`{"command":"listStreams"}`, `{"command":"listStreams","data":{"totalCount":4,"streams":["s0","s1","s2","s3"]}}`},
		{`{"command":"liststreams","verbose":true,"count":1,"offset":2}`, `{"command":"listStreams","data":{"totalCount":4,"streams":[{` + record(2) + `}]}}`},
		{`{"command":"listStreams","offset":9}`, `{"command":"listStreams","data":{"totalCount":4,"streams":[]}}`},
		{`{"command":"getStreamMessageCount","streamname":"s1"}`, `{"command":"getStreamMessageCount","data":{"streamname":"s1","count":1099511627776}}`},
		{`{"command":"deleteStream","streamname":"s1"}`, `{"command":"deleteStream","data":{}}`},
		{`{"command":"getLicense"}`, `{"command":"getLicense","data":{"issuedBy":"us","issuedTo":"you","comment":"","serial":"","features":[` +
			`{"name":"stream-count","version":"1","validSince":1,"validUntil":2,"count":-1},` +
			`{"name":"stream-processing","version":"1","validSince":1,"validUntil":2,"count":-1},` +
			`{"name":"stream-persistence","version":"1","validSince":1,"validUntil":2,"count":-1}]}}`},
		{`{"command":"probe"}`, `{"command":"probe","error":"Unknown command"}`},
	})
	wantResponses(t, func(p []byte) []byte { return Streams(t.Context(), broker.NoStreams{}, licensed, p) }, [][2]string{
		{`{"command":"getStream","streamname":"s1"}`, `{"command":"getStream","error":"Unknown command"}`},
		{`{"command":"listStreams"}`, `{"command":"listStreams","error":"Unknown command"}`},
	})
}

// Arguments belong to their own command, whatever is between.
func TestStreams_several_commands(t *testing.T) {
	t.Parallel()
	s := newFakeStreams()
	got := string(Streams(t.Context(), s, licensed, []byte(`{"Commands":[{"command":"clear"},{"command":"listStreams"},
		{"command":"clearStreamMessages","streamname":"s1","gte":1},{"command":"replayStream","Command":"deleteStream","streamname":"s2","replaytopic":"r","gte":2},
		{"command":"clearStreamMessages","streamname":"s9","gte":3},{"command":"clearStreamMessages","streamname":"s0","lte":4},5]} and more`)))
	want := []string{"s1 cleared 1 open", "s2 replayed r 2 open false -1 1", "s0 cleared open 4"}
	if diff := cmp.Diff(want, s.log); diff != "" {
		t.Errorf("done (-want +got):\n%s\nanswered %s", diff, got)
	}
	// A number that only the parser of the envelope accepts.
	s = newFakeStreams()
	got = string(Streams(t.Context(), s, licensed, []byte(`{"commands":[{"command":"deleteStream","streamname":"s1","x":01},{"command":"listStreams"}]}`)))
	if len(s.log) > 0 || !strings.HasPrefix(got, `{"responses":[{"command":"deleteStream","error":"Payload not valid JSON"},{"command":"listStreams","data":`) {
		t.Errorf("half-read: done %q, answered %s", s.log, got)
	}
}

func TestStreams_answers_are_bounded(t *testing.T) {
	t.Parallel()
	s := &fakeStreams{}
	for range 600 {
		s.streams = append(s.streams, broker.Stream{StreamName: strings.Repeat("x", 30_000)})
	}
	got := string(Streams(t.Context(), s, licensed, ListStreams(false, -1, 0).Encode("x")))
	if want := `{"responses":[{"command":"listStreams","error":"Answer too large, use count and offset","correlationData":"x"}]}`; got != want {
		t.Errorf("got %.200s, want %s", got, want)
	}
}

func TestStreams_what_is_asked_is_what_is_done(t *testing.T) {
	t.Parallel()
	from, to := 1763640000.5, 4102444800.0
	source, yes := "a/+", true
	spec := broker.StreamSpec{StreamName: "n", SourceTopic: &source, Persist: &yes, Query: json.RawMessage(`{"select":[]}`)}
	s := newFakeStreams()
	full := `"SourceTopic":"a/+","TargetTopic":"","TargetQoS":-1,"TTL":0,"Key":null,"TextName":"","TextDescription":"","Active":true,"Process":true,"Persist":true,"Query":{"select":[]}`
	for _, c := range []struct {
		command Command
		want    string
	}{
		{CreateStream(spec), "n created " + full},
		{ModifyStream(broker.StreamSpec{StreamName: "s1", Persist: &yes}, false), "s1 modified false " + nothing + `"Active":null,"Process":null,"Persist":true,"Query":null`},
		{ModifyStream(broker.StreamSpec{StreamName: "s1"}, true), `s1 modified true "SourceTopic":null,"TargetTopic":"","TargetQoS":-1,"TTL":0,"Key":null,"TextName":"","TextDescription":"","Active":true,"Process":false,"Persist":false,"Query":{}`},
		{DeleteStream("s1"), "s1 deleted"},
		{ClearStreamMessages("s1", nil, nil), "s1 cleared open open"},
		{ClearStreamMessages("s1", &from, &to), "s1 cleared " + seconds(&from) + " " + seconds(&to)},
		{ReplayStream(broker.StreamReplay{StreamName: "s1", ReplayTopic: "r", GTE: &from, Limit: -1, Speed: 0}), "s1 replayed r " + seconds(&from) + " open false -1 0"},
		{ReplayStream(broker.StreamReplay{StreamName: "s1", ReplayTopic: "r", LTE: &to, Limit: 0, Speed: 2.5, Reverse: true}), "s1 replayed r open " + seconds(&to) + " true 0 2.5"},
		{StopStreamReplay("s1"), "s1 stopped"},
		{CountStreamMessages("s1"), "s1 counted"},
	} {
		s.log = nil
		if err := Read(Streams(t.Context(), s, licensed, c.command.Encode("x")), "x", nil); err != nil {
			t.Errorf("%s: %v", c.command.Name, err)
		}
		if diff := cmp.Diff([]string{c.want}, s.log); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.command.Name, diff)
		}
	}
}

func TestStreams_are_asked_for_in_the_documented_spelling(t *testing.T) {
	t.Parallel()
	from, to, source, ttl := 1763640000.5, 4102444800.0, "a", int64(60)
	for want, c := range map[string]Command{
		`"clearStreamMessages","correlationData":"x","streamname":"s","gte":1763640000.5,"lte":4102444800`:                            ClearStreamMessages("s", &from, &to),
		`"replayStream","correlationData":"x","streamname":"s","replaytopic":"r","limit":-1,"speed":"fastest","reverse":false`:        ReplayStream(broker.StreamReplay{StreamName: "s", ReplayTopic: "r", Limit: -1}),
		`"replayStream","correlationData":"x","streamname":"s","replaytopic":"r","lte":4102444800,"limit":0,"speed":2,"reverse":true`: ReplayStream(broker.StreamReplay{StreamName: "s", ReplayTopic: "r", LTE: &to, Speed: 2, Reverse: true}),
		`"modifyStream","ttl":60,"correlationData":"x","streamname":"s","sourcetopic":"a","replace":false`:                            ModifyStream(broker.StreamSpec{StreamName: "s", SourceTopic: &source, TTL: &ttl}, false),
		`"listStreams","verbose":true,"count":-1,"correlationData":"x"`:                                                               ListStreams(true, -1, 0),
		`"getStream","correlationData":"x","streamname":"s"`:                                                                          GetStream("s"),
	} {
		if got := string(c.Encode("x")); got != `{"commands":[{"command":`+want+`}]}` {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestStreams_what_is_asked_is_what_is_read(t *testing.T) {
	t.Parallel()
	s := newFakeStreams()
	s.streams[1].Replay = &broker.StreamProgress{ReplayTopic: "r", Sent: 1}
	s.streams[1].Stats = &broker.StreamStats{Received: 7}
	var one StreamRecord
	if err := Read(Streams(t.Context(), s, licensed, GetStream("s1").Encode("x")), "x", &one); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.streams[1], one.Stream); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	for _, verbose := range []bool{false, true} {
		var list StreamList
		if err := Read(Streams(t.Context(), s, licensed, ListStreams(verbose, 2, 1).Encode("x")), "x", &list); err != nil {
			t.Fatal(err)
		}
		if list.Total != 4 || len(list.Streams) != 2 || list.Streams[1].StreamName != "s2" || list.Streams[1].Active != verbose {
			t.Errorf("verbose %v: got %+v", verbose, list)
		}
	}
	var count StreamCount
	if err := Read(Streams(t.Context(), s, licensed, CountStreamMessages("s1").Encode("x")), "x", &count); err != nil || count.Count != 1<<40 {
		t.Errorf("count: %+v, %v", count, err)
	}
	err := Read(Streams(t.Context(), s, licensed, GetStream("s9").Encode("x")), "x", &one)
	if e := refused(t, err).Classify("op", broker.CapStreams); broker.KindOf(e) != broker.NotFound {
		t.Errorf("no such stream: %v", e)
	}
}

// singleResponse returns a message with nothing but one valid response.
func singleResponse(data string) []byte {
	return []byte(`{"responses":[{"command":"c","data":` + data + `,"correlationData":"x"}]}`)
}

func TestRead_takes_all_forms_of_a_stream(t *testing.T) {
	t.Parallel()
	query := `{"where":[{"operator":">","left":"[a]","right":2.5}]}`
	record := `"streamname":"s","sourcetopic":"a","targetqos":-1.0,"ttl":8.64e4,"active":true,"persist":1,"replaying":false,"query":` + query
	want := broker.Stream{StreamName: "s", SourceTopic: "a", TargetQoS: -1, TTL: 86400, Active: true, Query: json.RawMessage(query)}
	for _, data := range []string{"{" + record + "}", `{"stream":{` + record + `}}`, `{"stream":{` + record + `},"streamname":"other"}`, `{"stream":"s",` + record + "}"} {
		var got StreamRecord
		if err := Read(singleResponse(data), "x", &got); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(want, got.Stream); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
	var list StreamList
	if err := Read(singleResponse(`{"totalCount":"x","streams":["a",{`+record+`},{"streamname":"c","query":null}]}`), "x", &list); err != nil {
		t.Fatal(err)
	}
	wantList := StreamList{Total: 3, Streams: []broker.Stream{{StreamName: "a"}, want, {StreamName: "c", Query: json.RawMessage(`{}`)}}}
	if diff := cmp.Diff(wantList, list); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func FuzzStreams(f *testing.F) {
	for _, seed := range []string{
		`{"commands":[{"command":"createStream","streamname":"n","sourceTopic":"a","query":{"select":[{"source":"[a]"}]},"ttl":1e9}]}`,
		`{"commands":[{"command":"modifyStream","streamname":"s1","replace":true,"active":null},{"command":"x"},{"command":"getStream","streamname":"s1"}]}`,
		`{"commands":[{"command":"replayStream","streamname":"s1","replaytopic":"r","gte":"1","lte":2,"speed":"fastest","limit":-1}]}`,
		`{"commands":[{"command":"clearStreamMessages","streamname":"s1","gte":"0x1p4"},{"command":"listStreams","verbose":true,"count":2},{"command":"getLicense"}]}`,
		"{\"commands\":[{\"command\":\"getStream\",\"streamname\":\"\xff\"}]}", `{"commands":[{"command":"deleteStream","streamname":"s1","x":01}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := Streams(t.Context(), newFakeStreams(), licensed, payload)
		var m struct{ Responses []map[string]any }
		if err := json.Unmarshal(got, &m); err != nil || m.Responses == nil {
			t.Fatalf("%q is answered with %q", payload, got)
		}
		for _, into := range []any{&StreamRecord{}, &StreamList{}, &StreamCount{}} {
			if err := Read(payload, "x", into); errors.Is(err, context.Canceled) {
				t.Error("a reader has no context")
			}
		}
	})
}
