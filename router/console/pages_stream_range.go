package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// streamTimeline is what a stream stores over time, as the API returns it.
type streamTimeline struct {
	Count  int     `json:"count"`
	First  int64   `json:"first"`
	Last   int64   `json:"last"`
	Step   int64   `json:"step"`
	Counts []int64 `json:"counts"`
}

// timelineCard shows what a stream stores over time, and a chosen period.
type timelineCard struct {
	Value    streamTimeline
	Err      *apiError
	Bars     []timelineBar
	Rows     []timelineRow // slices with messages
	Levels   []string      // texts of the lines of the axis, from the bottom; none if nothing was counted over time
	Clocks   []chartClock  // of the axis: start, middle and end, or the only one
	Highest  string        // a sentence about the highest bar, "" if there is one message
	From, To chartClock    // the first and the last message
	ChosenX  string
	Chosen   string // width, "" without a chosen period
}

// timelineBar is a slice in the picture, in its own units.
type timelineBar struct{ X, Y, Width, Height string }

// timelineRow is a slice in the table.
type timelineRow struct {
	Clock chartClock
	Count int64
}

// The size of the picture.
const (
	timelineWidth  = 600
	timelineHeight = 100
)

// loadTimeline loads what the stream of the page stores.
func (q *request) loadTimeline() timelineCard {
	var c timelineCard
	if err := q.get("getStreamTimeline", q.streamQuery(), &c.Value); err != nil {
		c.Err = q.asAPIError(err)
	}
	t := c.Value
	if t.Count == 0 || c.Err != nil {
		return c
	}
	c.From, c.To = clockAt(t.First), clockAt(t.Last)
	c.Clocks = []chartClock{c.From}
	if t.Last > t.First {
		c.Clocks = append(c.Clocks, clockAt(t.First+(t.Last-t.First)/2), c.To)
	}
	if t.Counts == nil {
		c.Bars = []timelineBar{{"0", decimal(timelineHeight - 8), decimal(timelineWidth), "8"}}
		return c
	}
	q.countOverTime(&c)
	return c
}

// countOverTime fills the picture and the table of a timeline that has counts.
func (q *request) countOverTime(c *timelineCard) {
	t := c.Value
	highest := slices.Max(t.Counts)
	top := chartTop(float64(highest), true)
	for i := range 3 {
		c.Levels = append(c.Levels, q.t("timeline.level", int(top)*i/2))
	}
	if t.Count > 1 {
		c.Highest = q.t("timeline.highest", highest, clockAt(t.First+int64(slices.Index(t.Counts, highest))*t.Step).Text)
	}
	width := timelineWidth / float64(max(1, len(t.Counts)))
	for i, n := range t.Counts {
		if n == 0 {
			continue
		}
		height := max(2, timelineHeight*float64(n)/top) // or a single message could not be seen
		c.Bars = append(c.Bars, timelineBar{decimal(float64(i) * width), decimal(timelineHeight - height), decimal(width * 0.9), decimal(height)})
		c.Rows = append(c.Rows, timelineRow{clockAt(t.First + int64(i)*t.Step), n})
	}
}

// choose marks a period, whose ends are Unix seconds; "" is open.
func (c *timelineCard) choose(gte, lte string) {
	span := float64(c.Value.Last - c.Value.First)
	if span <= 0 || gte == "" && lte == "" {
		return
	}
	at := func(seconds string, open float64) float64 {
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return open
		}
		return min(max(0, timelineWidth*float64(n*1000-c.Value.First)/span), timelineWidth)
	}
	from, to := at(gte, 0), at(lte, timelineWidth)
	c.ChosenX, c.Chosen = decimal(from), decimal(max(0, to-from))
}

// clockAt returns a time as all pages write it.
func clockAt(ms int64) chartClock {
	t := time.UnixMilli(ms).UTC()
	return chartClock{t.Format(time.RFC3339), t.Format("2006-01-02 15:04:05 UTC")}
}

// streamRangeView is a page about a period of what a stream stores.
type streamRangeView struct {
	frame
	Intro    string
	Kept     timelineCard
	Form     form
	Affected string // what the chosen period has, "" before it was asked for
	Confirm  *form  // does it, nil if the form itself does
}

// rangeView returns the view of a page about a period.
func (q *request) rangeView(intro, title string, f form) *streamRangeView {
	v := &streamRangeView{Intro: q.t(intro), Kept: q.loadTimeline(), Form: f}
	name := q.query.Get("streamname")
	v.Title, v.Form.Cancel = q.t(title, show(name)), q.linkInBroker("streams/detail", "streamname", name)
	if gte, lte, err := q.period(); err == nil {
		v.Kept.choose(gte, lte)
	}
	if chosen, ok := q.result.(streamTimeline); ok {
		v.Affected = q.t("timeline.affected", chosen.Count, q.lang.number(int64(v.Kept.Value.Count)))
	}
	return v
}

// periodFields are the ends of a period.
func (q *request) periodFields() []field {
	return []field{{Name: "gte", Kind: kindTime, Step: "1", Label: q.t("field.from")}, {Name: "lte", Kind: kindTime, Step: "1", Label: q.t("field.to")}}
}

func (q *request) replayForm() form {
	f := q.newForm("", "timeline.count", append([]field{{Name: "replaytopic", Kind: kindText, Required: true}}, append(q.periodFields(),
		field{Name: "speed", Kind: kindSelect, Value: "1", Options: []option{{"1", q.t("streams.speed.original")}, {"10", q.t("streams.speed.10")}, {"100", q.t("streams.speed.100")}, {"0", q.t("streams.speed.fastest")}}},
		field{Name: "limit", Kind: kindNumber, Min: "1"},
		field{Name: "reverse", Kind: kindCheckbox})...)...)
	f.Do, f.Part, f.Partial, f.Also = "count", "range", true, []button{{Text: q.t("streams.replay")}}
	return f
}

func viewReplay(q *request) (view, error) {
	return q.rangeView("streams.replay.what", "streams.replay.of", q.replayForm()), nil
}

// seconds returns a posted time, which is in UTC, as Unix seconds; "" is open.
func (q *request) seconds(name string) (string, error) {
	text := q.posted(name)
	if text == "" {
		return "", nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return fmt.Sprint(t.Unix()), nil
		}
	}
	return "", q.invalid(name, q.t("error.time"))
}

// period returns the posted times from and to.
func (q *request) period() (gte, lte string, err error) {
	if gte, err = q.seconds("gte"); err != nil {
		return "", "", err
	}
	lte, err = q.seconds("lte")
	return gte, lte, err
}

// countPeriod has the page show how many messages the posted period has.
func countPeriod(q *request) (string, error) {
	gte, lte, err := q.period()
	if err != nil {
		return "", err
	}
	query := q.streamQuery()
	query.Set("gte", gte)
	query.Set("lte", lte)
	query.Set("slices", "1")
	var chosen streamTimeline
	if err := q.get("getStreamTimeline", query, &chosen); err != nil {
		return "", err
	}
	q.result = chosen
	return "", errShow
}

func replayStream(q *request) (string, error) {
	gte, lte, err := q.period()
	if err != nil {
		return "", err
	}
	name := q.query.Get("streamname")
	body := q.replayForm().body(q.http.PostForm)
	body["streamname"], body["gte"], body["lte"] = name, gte, lte
	body["speed"] = json.Number(q.posted("speed"))
	return done(q.inBroker("streams/detail", "streamname", name), "replay_started", name), q.do("replayStream", nil, body)
}

// viewStreamClear shows how many messages are deleted before they are.
func viewStreamClear(q *request) (view, error) {
	v := q.rangeView("streams.clear.what", "streams.clear.of", q.newForm("count", "timeline.count", q.periodFields()...))
	if v.Affected != "" {
		confirm := q.newForm("clear", "streams.clear", field{Name: "gte", Kind: kindHidden}, field{Name: "lte", Kind: kindHidden})
		confirm.Danger = true
		v.Confirm = &confirm
	}
	return v, nil
}

func clearStream(q *request) (string, error) {
	gte, lte, err := q.period()
	if err != nil {
		return "", err
	}
	name := q.query.Get("streamname")
	next := done(q.inBroker("streams/detail", "streamname", name), "stream_cleared", name)
	if gte == "" && lte == "" {
		return next, q.do("clearStreamMessages", q.streamQuery(), nil)
	}
	query := q.streamQuery()
	query.Set("gte", gte)
	query.Set("lte", lte)
	return next, q.do("clearStreamRange", query, nil)
}
