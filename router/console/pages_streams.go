package console

import (
	"encoding/json"
	"net/url"
)

// streamPages manage the streams of a broker.
func streamPages() []*page {
	const base = brokerPath + "streams"
	return []*page{
		{path: base, name: "streams", template: "list", role: viewer, help: "streams", calls: []string{"listStreams"}, view: viewStreams, fragments: []string{"list"}},
		{path: base + "/new", name: "stream-new", template: "stream-editor", group: "streams", role: editor, help: "streams",
			calls: []string{"createStream", "previewStream"}, view: viewStreamEditor, actions: map[string]action{"edit": editStream}, fragments: []string{"outcome"}},
		{path: base + "/detail", name: "stream", group: "streams", role: viewer, change: editor, help: "streams", calls: []string{"getStream", "getStreamTimeline", "stopStreamReplay", "modifyStream"},
			view: viewStream, fragments: []string{"stream"},
			actions: map[string]action{"stop": stopReplay, "activate": switchStream, "deactivate": switchStream}},
		{path: base + "/edit", name: "stream-edit", template: "stream-editor", group: "streams", role: editor, help: "streams",
			calls: []string{"getStream", "modifyStream", "previewStream"}, view: viewStreamEditor, actions: map[string]action{"edit": editStream}, fragments: []string{"outcome"}},
		{path: base + "/replay", name: "stream-replay", template: "stream-range", group: "streams", role: editor, help: "streams", calls: []string{"replayStream", "getStreamTimeline"},
			view: viewReplay, actions: map[string]action{"": replayStream, "count": countPeriod}, fragments: []string{"range"}},
		{path: base + "/clear", name: "stream-clear", template: "stream-range", group: "streams", role: editor, help: "streams", calls: []string{"clearStreamMessages", "clearStreamRange", "getStreamTimeline"},
			view: viewStreamClear, actions: map[string]action{"count": countPeriod, "clear": clearStream}, fragments: []string{"range"}},
		{path: base + "/delete", name: "stream-delete", template: "form", group: "streams", role: editor, help: "streams", calls: []string{"deleteStream", "getStreamMessageCount"},
			view: viewStreamDelete, actions: map[string]action{"": deleteStream}},
	}
}

// streamRecord is a stream as the API returns it.
type streamRecord struct {
	Name        string          `json:"streamname"`
	Source      string          `json:"sourcetopic"`
	Target      string          `json:"targettopic"`
	TargetQoS   int             `json:"targetqos"`
	TTL         int64           `json:"ttl"`
	Key         string          `json:"key"`
	TextName    string          `json:"textname"`
	Description string          `json:"textdescription"`
	Active      bool            `json:"active"`
	Process     bool            `json:"process"`
	Persist     bool            `json:"persist"`
	Replaying   bool            `json:"replaying"`
	Query       json.RawMessage `json:"query"`
	Error       string          `json:"error"`
	Replay      *struct {
		Topic     string  `json:"replaytopic"`
		Sent      int64   `json:"sent"`
		Total     int64   `json:"total"`
		StartedAt int64   `json:"startedAt"`
		Speed     float64 `json:"speed"`
		Reverse   bool    `json:"reverse"`
	} `json:"replay"`
	Stats *streamStats `json:"stats"`
	Rate  *float64     `json:"rate"` // messages received per second, nil if they were not measured
}

// streamStats are the counters of a stream; zero where the broker has none.
type streamStats struct {
	Received    int64 `json:"received"`
	Republished int64 `json:"republished"`
	Persisted   int64 `json:"persisted"`
	Replayed    int64 `json:"replayed"`
	Filtered    int64 `json:"filtered"`
	Invalid     int64 `json:"invalid"`
	Dropped     int64 `json:"dropped"`
	Evicted     int64 `json:"evicted"`
	Expired     int64 `json:"expired"`
	Messages    int64 `json:"messages"`
	Bytes       int64 `json:"bytes"`
}

// state returns the state of a stream as a cell.
func (q *request) streamState(s streamRecord) cell {
	switch {
	case s.Error != "":
		return cell{Text: q.t("streams.state.error"), State: "bad", Quiet: s.Error}
	case s.Replaying:
		return cell{Text: q.t("streams.state.replaying"), State: "good"}
	case s.Active:
		return cell{Text: q.t("streams.state.active"), State: "good"}
	}
	return cell{Text: q.t("streams.state.inactive"), State: "warn"}
}

func viewStreams(q *request) (view, error) {
	v := &listView{Intro: q.t("streams.empty"), Rates: q.query.Get("rates") == "true",
		Head: []string{q.t("col.name"), q.t("col.state"), q.t("col.source"), q.t("col.target"), q.t("streams.results"), q.t("col.stored") + " · " + q.t("streams.kept")}}
	v.Choice = q.columns(v.Head...)
	if v.Rates {
		v.Head = append(v.Head, q.t("overview.per_second"))
	}
	v.Head = append(v.Head, q.t("col.dropped"))
	var list []streamRecord
	total, err := q.list("listStreams", q.listQuery("rates"), &list)
	if err != nil {
		v.Err = q.asAPIError(err)
		return v, nil
	}
	v.Paging = q.pagingOf("listStreams", total)
	if q.role() >= editor {
		v.Add = link{Text: q.t("streams.add"), To: q.inBroker("streams/new")}
	}
	for _, s := range list {
		v.CanMeasure = v.CanMeasure || s.Stats != nil
		v.Rows = append(v.Rows, q.streamRow(s, v.Rates))
	}
	return v, nil
}

// streamRow returns the row of a stream, with the messages per second that it receives if these
// are measured.
func (q *request) streamRow(s streamRecord, rates bool) row {
	kept, dropped := cell{Text: "–", Number: true}, cell{Text: "–", Number: true}
	if s.Stats != nil {
		kept.Text, dropped.Text = q.lang.number(s.Stats.Messages), q.lang.number(s.Stats.Dropped)
	}
	if s.Persist {
		kept.Quiet = q.keptFor(s.TTL)
	}
	cells := []cell{{Text: s.Name, To: q.inBroker("streams/detail", "streamname", s.Name), Quiet: s.TextName}, q.streamState(s), {Text: s.Source, Code: true}, {Text: s.Target, Code: true},
		{Text: q.t("streams.results." + s.results())}, kept}
	if rates {
		cells = append(cells, cell{Text: q.lang.rate(s.Rate), Number: true})
	}
	return row{Cells: append(cells, dropped)}
}

// results returns what the stream does for a result.
func (s *streamRecord) results() string {
	switch {
	case s.Process && s.Persist:
		return "both"
	case s.Process:
		return "processed"
	case s.Persist:
		return "stored"
	}
	return "unchanged"
}

// streamView is one stream.
type streamView struct {
	frame
	Stream  streamRecord
	State   cell
	Query   string
	Facts   []fact
	Counts  []fact
	Percent int // of the replay that is done
	Kept    timelineCard
}

// streamQuery names the stream of the page.
func (q *request) streamQuery() url.Values {
	return url.Values{"streamname": {q.query.Get("streamname")}}
}

func viewStream(q *request) (view, error) {
	var s streamRecord
	if err := q.get("getStream", q.streamQuery(), &s); err != nil {
		return nil, err
	}
	v := &streamView{Stream: s, State: q.streamState(s)}
	v.Title = q.t("stream.of", s.Name)
	if s.Persist {
		v.Kept = q.loadTimeline()
	}
	if len(s.Query) > 0 && string(s.Query) != "null" && string(s.Query) != "{}" {
		v.Query = indented(s.Query)
	}
	v.Facts = []fact{{q.t("col.source"), cell{Text: s.Source, Code: true}}, {q.t("col.target"), cell{Text: s.Target, Code: true}},
		{q.t("field.targetqos"), cell{Text: q.qosName(s.TargetQoS)}}, {q.t("field.process"), cell{Text: q.yes(s.Process)}}, {q.t("field.persist"), cell{Text: q.yes(s.Persist)}},
		{q.t("streams.kept"), cell{Text: q.keptFor(s.TTL)}}, {q.t("field.textdescription"), cell{Text: s.Description}}}
	if c := s.Stats; c != nil {
		for _, n := range []struct {
			key   string
			value int64
		}{{"received", c.Received}, {"republished", c.Republished}, {"persisted", c.Persisted}, {"replayed", c.Replayed}, {"filtered", c.Filtered},
			{"invalid", c.Invalid}, {"dropped", c.Dropped}, {"evicted", c.Evicted}, {"expired", c.Expired}, {"messages", c.Messages}} {
			v.Counts = append(v.Counts, fact{q.t("streams.count." + n.key), cell{Text: q.lang.number(n.value), Number: true}})
		}
		v.Counts = append(v.Counts, fact{q.t("streams.count.bytes"), cell{Text: q.lang.bytes(c.Bytes), Number: true}})
	}
	if r := s.Replay; r != nil && r.Total > 0 {
		v.Percent = int(min(100, r.Sent*100/r.Total))
	}
	return v, nil
}

// qosName returns the words for a QoS, of which -1 is that of the message.
func (q *request) qosName(qos int) string {
	if qos < 0 {
		return q.t("qos.message")
	}
	return q.lang.number(qos)
}

func (q *request) yes(b bool) string {
	if b {
		return q.t("yes")
	}
	return q.t("no")
}

// keptFor returns the words for a time in seconds, of which 0 is without limit.
func (q *request) keptFor(seconds int64) string {
	if seconds == 0 {
		return q.t("time.unlimited_keep")
	}
	return q.duration(int(seconds))
}

func stopReplay(q *request) (string, error) {
	return "", q.do("stopStreamReplay", q.streamQuery(), nil)
}

func switchStream(q *request) (string, error) {
	return "", q.do("modifyStream", nil, map[string]any{"streamname": q.query.Get("streamname"), "active": q.posted("do") == "activate"})
}

// stored returns the sentence with the number of messages that the stream stores.
func (q *request) stored() []string {
	var n struct {
		Count int `json:"count"`
	}
	if q.get("getStreamMessageCount", q.streamQuery(), &n) != nil {
		return nil
	}
	return []string{q.t("streams.stores", n.Count)}
}

func viewStreamDelete(q *request) (view, error) {
	name := q.query.Get("streamname")
	v := &formView{Intro: append([]string{q.t("streams.delete.what", show(name))}, q.stored()...),
		Form: q.confirmForm("streams.delete", "", q.root+"/"+q.inBroker("streams/detail", "streamname", name))}
	return v, nil
}

func deleteStream(q *request) (string, error) {
	return done(q.inBroker("streams"), "stream_deleted", q.query.Get("streamname")), q.do("deleteStream", q.streamQuery(), nil)
}
