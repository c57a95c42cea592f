package streams

import (
	"math"
	"testing"

	"signalbox/broker"
)

func TestRangeOf(t *testing.T) {
	t.Parallel()
	seconds := func(f float64) *float64 { return &f }
	everything := Range{From: math.MinInt64, To: math.MaxInt64}
	for _, test := range []struct {
		gte, lte *float64
		want     Range
	}{
		{nil, nil, everything},
		{seconds(5), seconds(5), Range{5000, 5000}},
		{seconds(1.0001), seconds(1.0099), Range{1001, 1009}},
		{seconds(1.001), seconds(1.001), Range{1001, 1001}}, // whose products are not exactly 1001
		{seconds(4.035), seconds(4.035), Range{4035, 4035}},
		{seconds(1_700_000_000.123), seconds(1_700_000_000.123), Range{1_700_000_000_123, 1_700_000_000_123}},
		{seconds(-1.5), seconds(-0.5), Range{-1500, -500}},
		{seconds(-1e300), seconds(1e300), everything},
		{nil, seconds(0), Range{math.MinInt64, 0}},
	} {
		got, err := rangeOf(test.gte, test.lte)
		if err != nil || got != test.want {
			t.Errorf("got %+v, error %v, want %+v", got, err, test.want)
		}
	}
	for _, test := range []struct {
		gte, lte float64
		want     string
	}{
		{2, 1, "lte"}, {math.NaN(), 1, "gte"}, {1, math.NaN(), "lte"}, {math.Inf(-1), math.Inf(1), "gte lte"},
	} {
		_, err := rangeOf(&test.gte, &test.lte)
		if got := refusedFields(t, err, ""); got != test.want {
			t.Errorf("from %v to %v refused %q, want %q", test.gte, test.lte, got, test.want)
		}
	}
}

// FuzzRangeOf compares ranges with whole milliseconds.
func FuzzRangeOf(f *testing.F) {
	f.Add(int64(0), int64(0))
	f.Add(int64(1_700_000_000_123), int64(4_102_444_800_999))
	f.Fuzz(func(t *testing.T, from, to int64) {
		const year10000 = 253_402_300_800_000
		if from, to = min(from, to), max(from, to); from < 0 || to > year10000 {
			return
		}
		got, err := rangeOf(new(float64(from)/1000), new(float64(to)/1000))
		if want := (Range{from, to}); err != nil || got != want {
			t.Errorf("got %+v, error %v, want %+v", got, err, want)
		}
	})
}

func TestCheckReplay(t *testing.T) {
	t.Parallel()
	good := broker.StreamReplay{StreamName: "s", ReplayTopic: "again", Limit: -1, Speed: 1}
	for name, test := range map[string]struct {
		change func(*broker.StreamReplay)
		want   string
	}{
		"no topic":                     {func(r *broker.StreamReplay) { r.ReplayTopic = "" }, "replaytopic"},
		"a topic with a wildcard":      {func(r *broker.StreamReplay) { r.ReplayTopic = "a/+" }, "replaytopic"},
		"a topic of the system":        {func(r *broker.StreamReplay) { r.ReplayTopic = "$SYS/x" }, "replaytopic"},
		"an end before the begin":      {func(r *broker.StreamReplay) { r.GTE, r.LTE = new(2.0), new(1.0) }, "lte"},
		"a start that is not a time":   {func(r *broker.StreamReplay) { r.GTE = new(math.NaN()) }, "gte"},
		"a negative limit":             {func(r *broker.StreamReplay) { r.Limit = -2 }, "limit"},
		"a negative speed":             {func(r *broker.StreamReplay) { r.Speed = -1 }, "speed"},
		"an infinite speed":            {func(r *broker.StreamReplay) { r.Speed = math.Inf(1) }, "speed"},
		"a speed that is not a number": {func(r *broker.StreamReplay) { r.Speed = math.NaN() }, "speed"},
		"everything at once": {func(r *broker.StreamReplay) {
			*r = broker.StreamReplay{GTE: new(2.0), LTE: new(1.0), Limit: -5, Speed: -1}
		}, "replaytopic lte limit speed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good
			test.change(&r)
			if got := refusedFields(t, checkReplay(Definition{}, r), opReplay); got != test.want {
				t.Errorf("refused %q, want %q", got, test.want)
			}
		})
	}
	for _, speed := range []float64{0, 0.001, 1, 1e9} {
		good.Speed = speed
		if err := checkReplay(persistingStream, good); err != nil {
			t.Error(err)
		}
	}
	forgetful := persistingStream
	forgetful.Persist = false
	if err := checkReplay(forgetful, good); broker.KindOf(err) != broker.Conflict {
		t.Errorf("of a stream that keeps nothing: got %v, want a conflict", err)
	}
}
