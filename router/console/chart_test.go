package console

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// testRequest returns a request in English.
func testRequest(t *testing.T) *request {
	t.Helper()
	c := newTestConsole(t, emptyService)
	r := httptest.NewRequest(http.MethodGet, "/ui/home", nil)
	return c.newRequest(httptest.NewRecorder(), r, c.pages[0], nil)
}

// values returns a series; NaN is a gap.
func values(numbers ...float64) []*float64 {
	list := make([]*float64, len(numbers))
	for i, n := range numbers {
		if !math.IsNaN(n) {
			list[i] = &n
		}
	}
	return list
}

var gap = math.NaN()

// TestChartPath checks that zero is the bottom, that gaps stay gaps, and that a value
// between two gaps is a point, not a line of no length.
func TestChartPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []*float64
		want   [2]string
	}{
		{"line", values(0, 5, 10), [2]string{"M0 100L300 50L600 0"}},
		{"gap", values(0, gap, 10, 10), [2]string{"M400 0L600 0", "M0 100h0"}},
		{"gaps at the ends", values(gap, 5, 5, gap), [2]string{"M200 50L400 50"}},
		{"one value", values(5), [2]string{"", "M0 50h0"}},
		{"nothing", nil, [2]string{}},
		{"only gaps", values(gap, gap), [2]string{}},
	} {
		if line, points := chartPath(c.values, 0, 10); line != c.want[0] || points != c.want[1] {
			t.Errorf("%s: %q and %q, want %q", c.name, line, points, c.want)
		}
	}
}

// TestChartTop checks that the end of the axis and its half are round numbers.
func TestChartTop(t *testing.T) {
	t.Parallel()
	for highest, want := range map[float64]float64{0: 1, -3: 1, 0.04: 0.2, 0.1: 0.2, 0.2: 0.2, 0.3: 0.4, 1: 1, 1.1: 2, 9: 10, 10: 10, 11: 20, 612: 800, 100_000: 100_000} {
		if got := chartTop(highest, false); math.Abs(got-want) > 1e-9 {
			t.Errorf("the axis for %v ends at %v, want %v", highest, got, want)
		}
	}
	for highest, want := range map[float64]float64{0: 2, 1: 2, 2: 2, 2.5: 4, 5: 6, 9: 10, 11: 20, 612: 800} {
		if got := chartTop(highest, true); got != want {
			t.Errorf("the axis of counts up to %v ends at %v, want %v", highest, got, want)
		}
	}
}

// TestFittedAxis checks that values are inside the axis, far apart on it, and that its lines
// are round numbers.
func TestFittedAxis(t *testing.T) {
	t.Parallel()
	for values, want := range map[[2]float64][2]float64{
		{20.1, 20.6}: {20, 21}, {20.1, 20.3}: {20.1, 20.3}, {-7, -3}: {-10, 0}, {-5, 5}: {-5, 5}, {21.5, 21.5}: {15, 25}, {0, 0}: {-1, 1}, {-4, -4}: {-4.5, -3.5},
		{0, 1e300}: {0, 1e300}, {-1e300, 1e300}: {-1e300, 1e300}, {1_769_860_800, 1_769_861_400}: {1_769_860_500, 1_769_861_500},
	} {
		bottom, top := fittedAxis(values[0], values[1])
		if tolerance := 1e-9 * math.Max(1, math.Abs(want[1]-want[0])); math.Abs(bottom-want[0]) > tolerance || math.Abs(top-want[1]) > tolerance {
			t.Errorf("the axis for %v is from %v to %v, want %v", values, bottom, top, want)
		}
	}
	for _, v := range []float64{1e-300, 5e-324, -1e300, 1e16, 1e-31} {
		for _, high := range []float64{v, v + math.Abs(v)*1e-16, math.Nextafter(v, 1e301), 1e300} {
			if bottom, top := fittedAxis(v, high); !(bottom <= v && high <= top && bottom < top) || math.IsInf(top-bottom, 0) {
				t.Errorf("the axis for %v and %v is from %v to %v", v, high, bottom, top)
			}
		}
	}
}

// TestChartThatFits checks a chart of numbers of any kind: negative ones, differences of a
// tenth, lines across gaps, and the digits of its texts.
func TestChartThatFits(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	for _, c := range []struct {
		values         []*float64
		path, trend    string
		levels         [3]string
		points, newest string
	}{
		{values(20.1, gap, gap, 20.6, gap), "M0 90L150 73.3L300 56.7L450 40", "T: 20.6 last, between 20.1 and 20.6.", [3]string{"20", "20.5", "21"}, `["20.1",null,null,"20.6",null]`, "no value"},
		{values(-2, -8), "M0 20L600 80", "T: -8 last, between -8 and -2.", [3]string{"-10", "-5", "0"}, `["-2","-8"]`, "-8"},
		{values(21.5, 21.5), "M0 35L600 35", "T: 21.5 last, between 21.5 and 21.5.", [3]string{"15", "20", "25"}, `["21.5","21.5"]`, "21.5"},
		{values(gap, 0.12345), "M600 41.4h0", "T: 0.12345 last, between 0.12345 and 0.12345.", [3]string{"0.1", "0.12", "0.14"}, `[null,"0.12345"]`, "0.12345"},
		{values(1e300, -1e300), "M0 0L600 100", "T: -1×10³⁰⁰ last, between -1×10³⁰⁰ and 1×10³⁰⁰.", [3]string{"-1×10³⁰⁰", "0", "1×10³⁰⁰"}, `["1×10³⁰⁰","-1×10³⁰⁰"]`, "-1×10³⁰⁰"},
	} {
		got := q.newChart(chartData{Step: 1, Fit: true, Series: []chartSeries{{Name: "T", Values: c.values}}})
		if got.Lines[0].Path+got.Lines[0].Points != c.path || got.Trend[0] != c.trend || got.Levels != c.levels || !strings.Contains(got.Points, `"series":[`+c.points+`]`) {
			t.Errorf("%v: %q, %q, %q, %s", c.trend, got.Lines[0].Path, got.Trend[0], got.Levels, got.Points)
		}
		if last := got.Rows[len(got.Rows)-1].Values[0]; last != c.newest {
			t.Errorf("%v: the table ends with %q, want %q", c.trend, last, c.newest)
		}
	}
}

// TestChartMerges checks the means of merged intervals, and that an interval is a gap
// only if none of its values is known.
func TestChartMerges(t *testing.T) {
	t.Parallel()
	d := chartData{Step: 10, Series: []chartSeries{{Values: values(1, 3, 5, gap, gap, gap, -2, math.Inf(1))}, {Values: values(7)}}}.merged(4)
	if d.Step != 20 || d.length() != 4 {
		t.Fatalf("step %d, %d intervals", d.Step, d.length())
	}
	got := [2][]any{}
	for i, s := range d.Series {
		for _, v := range s.Values {
			if v == nil {
				got[i] = append(got[i], nil)
			} else {
				got[i] = append(got[i], *v)
			}
		}
	}
	for i, want := range [2][]any{{2.0, 5.0, nil, 0.0}, {7.0, nil, nil, nil}} {
		for j := range want {
			if got[i][j] != want[j] {
				t.Errorf("series %d has %v, want %v", i, got[i], want)
				break
			}
		}
	}
}

// TestChart checks what a chart of a long time has: bounded points and rows, three lines
// with the unit, times, and a sentence for each series.
func TestChart(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	long := make([]float64, 4320)
	for i := range long {
		long[i] = float64(i % 600)
	}
	c := q.newChart(chartData{ID: "rate", Title: "Messages", Unit: "msg/s", From: 1_769_860_800_000, Step: 600, Series: []chartSeries{
		{Name: "In", Metric: "messagesIn", Values: values(long...)},
		{Name: "Out", Metric: "messagesOut", Values: values(1, 2.5, gap)},
		{Name: "Dropped"},
	}})
	if len(c.Lines) != 3 || c.Lines[1].Class != "s2" || len(c.Rows) > maxRows || strings.Count(c.Lines[0].Path, "L") >= maxPoints {
		t.Errorf("%d lines, %d rows, %d points", len(c.Lines), len(c.Rows), strings.Count(c.Lines[0].Path, "L"))
	}
	if want := [3]string{"0 msg/s", "300 msg/s", "600 msg/s"}; c.Levels != want {
		t.Errorf("the lines of the axis are %q, want %q", c.Levels, want)
	}
	if c.Clocks[0].At != "2026-01-31T12:00:00Z" || c.Clocks[0].Text != "2026-01-31 12:00 UTC" {
		t.Errorf("the chart starts at %v", c.Clocks[0])
	}
	want := []string{"In: 111 msg/s now, between 8.5 msg/s and 591 msg/s.", "Out: no value now, before between 1.8 msg/s and 1.8 msg/s.", "Dropped: no values."}
	for i := range want {
		if c.Trend[i] != want[i] {
			t.Errorf("%q, want %q", c.Trend[i], want[i])
		}
	}
	if c.Averages != "Each row is the mean of 30 hours." {
		t.Errorf("%q", c.Averages)
	}
	var data struct {
		Step   int          `json:"step"`
		Series [][]*float64 `json:"series"`
	}
	if err := json.Unmarshal([]byte(c.Points), &data); err != nil || len(data.Series) != 3 || len(data.Series[0]) != maxPoints || data.Step != 10_800 {
		t.Errorf("the script gets %.200s, %v", c.Points, err)
	}
}

// TestChart_of_the_present checks which value is called the present one: also that of the
// complete interval before one that has just begun, but none that is older, nor one that only
// the mean of several intervals has.
func TestChart_of_the_present(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	merged := make([]float64, 2*maxPoints-2)
	for name, c := range map[string]struct {
		values []float64
		want   string
	}{
		"complete":       {[]float64{1, 2, 3}, "S: 3 now, between 1 and 3."},
		"just begun":     {[]float64{1, 2, gap}, "S: 2 now, between 1 and 2."},
		"older":          {[]float64{1, 2, gap, gap}, "S: no value now, before between 1 and 2."},
		"begun, of many": {append(merged, 7, gap), "S: 7 now, between 0 and 7."},
		"older, of many": {append(merged, gap, gap), "S: no value now, before between 0 and 0."},
		"only one":       {[]float64{gap}, "S: no values."},
	} {
		if got := q.newChart(chartData{Step: 10, Series: []chartSeries{{Name: "S", Values: values(c.values...)}}}).Trend[0]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestChartWithoutData checks that a chart of nothing can be made.
func TestChartWithoutData(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	for _, d := range []chartData{{}, {Step: 10, Series: []chartSeries{{Name: "In"}}}, {Step: 10, Series: make([]chartSeries, 9)}} {
		c := q.newChart(d)
		if c.Rows != nil || len(c.Lines) > maxSeries {
			t.Errorf("%v has rows %v and %d lines", d, c.Rows, len(c.Lines))
		}
	}
}

// TestChartTemplate checks the markup: a name, a description, a table, and that names are
// text.
func TestChartTemplate(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	set, err := parsePage("home", q.console.functions(q.lang, "."))
	if err != nil {
		t.Fatal(err)
	}
	c := q.newChart(chartData{ID: "c", Title: `"><script>x</script>`, Step: 10, Unit: "msg/s",
		Series: []chartSeries{{Name: `<img src=x onerror=y>`, Values: values(2048, gap)}}})
	var out bytes.Buffer
	if err := set.ExecuteTemplate(&out, "chart", c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`role="img" aria-labelledby="c-title" aria-describedby="c-trend"`, `<p id="c-trend">&lt;img src=x onerror=y&gt;: 2,048 msg/s now, between 2,048 msg/s and 2,048 msg/s. </p>`,
		`<path class="point s1" d="M0 `, `<td class="num">2,048 msg/s</td>`, `<td class="num">no value</td>`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "<script") || strings.Contains(out.String(), "<img") {
		t.Errorf("a name is not text: %s", out.String())
	}
}
