package console

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	format "golang.org/x/text/number"
)

// chartData is what a chart shows: at most four series of the same intervals.
type chartData struct {
	ID    string // of the element
	Title string
	Unit  string // text after a value, such as "msg/s"
	From  int64  // start of the first interval, in epoch milliseconds
	Step  int    // length of an interval, in seconds
	Fit   bool   // the axis fits the values instead of beginning at zero, and lines span gaps
	Whole bool   // the values are counts: the lines of the axis are whole numbers

	digits int            // after the decimal point, on an axis that fits
	zone   *time.Location // of its times

	Series []chartSeries
}

// chartSeries is a value for each interval; nil if it is unknown.
type chartSeries struct {
	Name   string
	Metric string // member of the samples that a stream of events has, "" for none
	Values []*float64
}

// chart is a chart as the template "chart" writes it.
type chart struct {
	ID, Title string
	Lines     []chartLine
	Levels    [3]string     // texts of the lines of the axis, from the bottom
	Clocks    [3]chartClock // start, middle and end
	Trend     []string      // a sentence for each series
	Averages  string        // what a row of the table is
	Rows      []chartRow
	Points    string // values for the script, in JSON
}

// chartLine is a series: Class selects colour and dash. Points are the values between two gaps.
type chartLine struct{ Name, Class, Path, Points string }

// chartClock is a time, for machines and as text.
type chartClock struct{ At, Text string }

// chartRow is an interval in the table.
type chartRow struct {
	Clock  chartClock
	Values []string
}

// The size of the picture in its own units, the bound of its points, which the script
// may have to draw again, and that of the rows of the table.
const (
	chartWidth  = 600
	chartHeight = 100
	maxPoints   = 240
	maxRows     = 24
	maxSeries   = 4
)

// newChart returns the chart. Intervals are merged until there are few enough: the value
// of several is their mean, an interval of which none is known stays a gap. The sentences are
// about what is drawn.
func (q *request) newChart(d chartData) chart {
	d.Series, d.zone = d.Series[:min(len(d.Series), maxSeries)], q.zone()
	all := d
	d = d.merged(maxPoints)
	bottom, top := 0.0, chartTop(d.highest(), d.Whole)
	if d.Fit {
		bottom, top = fittedAxis(d.extent())
		d.digits = max(1-magnitude(top-bottom), 4-magnitude(max(math.Abs(bottom), math.Abs(top))))
	}
	c := chart{ID: d.ID, Title: d.Title}
	for i, s := range d.Series {
		c.Trend = append(c.Trend, q.trend(d, s, all.isCurrent(i)))
	}
	rows := all.merged(maxRows)
	rows.digits = d.digits
	c.Averages = q.t("chart.averages", q.duration(rows.Step))
	for i := range rows.length() {
		c.Rows = append(c.Rows, q.chartRow(rows, i))
	}
	for i := range c.Levels {
		c.Levels[i] = q.lang.chartValue(d, bottom+(top-bottom)*float64(i)/2)
	}
	for i := range c.Clocks {
		c.Clocks[i] = d.clock(max(0, d.length()-1) * i / (len(c.Clocks) - 1))
	}
	for i, s := range d.Series {
		values := s.Values
		if d.Fit {
			values = bridged(values)
		}
		line, points := chartPath(values, bottom, top)
		c.Lines = append(c.Lines, chartLine{s.Name, "s" + strconv.Itoa(i+1), line, points})
	}
	c.Points = q.points(d)
	return c
}

// merged returns the data with at most limit intervals.
func (d chartData) merged(limit int) chartData {
	n := d.length()
	size := max(1, (n+limit-1)/limit)
	series := make([]chartSeries, len(d.Series))
	for i, s := range d.Series {
		series[i] = s
		series[i].Values = make([]*float64, 0, limit)
		for at := 0; at < n; at += size {
			series[i].Values = append(series[i].Values, d.mean(s.Values, at, at+size))
		}
	}
	d.Series, d.Step = series, d.Step*size
	return d
}

// length returns the number of intervals, that of the longest series.
func (d chartData) length() int {
	n := 0
	for _, s := range d.Series {
		n = max(n, len(s.Values))
	}
	return n
}

// mean returns the mean of the known values of intervals; nil if there is none. On an axis
// that begins at zero no value is negative. That of counts is a whole number.
func (d chartData) mean(values []*float64, from, to int) *float64 {
	sum, n := 0.0, 0
	for i := from; i < min(to, len(values)); i++ {
		if v := values[i]; v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) {
			if n++; d.Fit {
				sum += *v
			} else {
				sum += max(0, *v)
			}
		}
	}
	if n == 0 {
		return nil
	}
	if sum /= float64(n); d.Whole {
		sum = math.Round(sum)
	}
	return &sum
}

func (d chartData) highest() float64 {
	top := 0.0
	for _, s := range d.Series {
		for _, v := range s.Values {
			if v != nil {
				top = max(top, *v)
			}
		}
	}
	return top
}

// extent returns the lowest and the highest value.
func (d chartData) extent() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range d.Series {
		for _, v := range s.Values {
			if v != nil {
				low, high = min(low, *v), max(high, *v)
			}
		}
	}
	if low > high {
		return 0, 0
	}
	return low, high
}

// fittedAxis returns the ends of an axis on which the values from low to high are well apart:
// they and their middle are multiples of 1, 2 or 5 times a power of ten. Equal values are near
// the middle. Differences that a float64 hardly has are not magnified.
func fittedAxis(low, high float64) (bottom, top float64) {
	if low == high {
		around := cmp.Or(math.Abs(low)/10, 1)
		low, high = low-around, high+around
	}
	span := max(high-low, 1e-12*max(math.Abs(low), math.Abs(high)), 1e-30)
	size := math.Pow10(magnitude(span / 2))
	for _, n := range []float64{1, 2, 5, 10, 20} {
		bottom = math.Floor(low/(n*size)) * n * size
		if top = bottom + 2*n*size; top >= high {
			break
		}
	}
	return bottom, top
}

// bridged returns the values with a straight line across each gap between two of them.
func bridged(values []*float64) []*float64 {
	all, last := slices.Clone(values), -1
	for i, v := range values {
		if v == nil {
			continue
		}
		for j := last + 1; last >= 0 && j < i; j++ {
			between := *values[last] + (*v-*values[last])*float64(j-last)/float64(i-last)
			all[j] = &between
		}
		last = i
	}
	return all
}

// chartTop returns the end of an axis that starts at zero: one digit whose half is one
// digit, too. It is at least 0.2, whose half is the smallest value that is shown, or 2, whose
// half is the smallest whole number.
func chartTop(highest float64, whole bool) float64 {
	switch {
	case whole:
		highest = max(highest, 2)
	case highest <= 0:
		return 1
	}
	highest = max(highest, 0.2)
	size := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, n := range []float64{1, 2, 4, 6, 8} {
		if n*size >= highest {
			return n * size
		}
	}
	return 10 * size
}

// chartPath returns the line of a series on an axis. A value between two gaps is none of its
// line: it is among the points, which have no length and are as large as their ends.
func chartPath(values []*float64, bottom, top float64) (line, points string) {
	var lines, dots strings.Builder
	for i, v := range values {
		if v == nil {
			continue
		}
		starts := i == 0 || values[i-1] == nil
		command := "L"
		if starts {
			command = "M"
		}
		x := float64(i) * chartWidth / float64(max(1, len(values)-1))
		at := command + decimal(x) + " " + decimal(chartHeight*(1-(*v-bottom)/(top-bottom)))
		if starts && (i == len(values)-1 || values[i+1] == nil) {
			dots.WriteString(at + "h0")
		} else {
			lines.WriteString(at)
		}
	}
	return lines.String(), dots.String()
}

// decimal returns a number with at most one decimal.
func decimal(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// points returns the data as the script chart.js reads it: with values as texts where the axis
// determines their digits.
func (q *request) points(d chartData) string {
	type values []any
	out := struct {
		From    int64    `json:"from"`
		Step    int      `json:"step"`
		Unit    string   `json:"unit"`
		None    string   `json:"none"`
		Whole   bool     `json:"whole,omitempty"`
		Metrics []string `json:"metrics,omitempty"`
		Series  []values `json:"series"`
	}{From: d.From, Step: d.Step, Unit: d.Unit, None: q.t("chart.gap"), Whole: d.Whole, Series: []values{}}
	for _, s := range d.Series {
		rounded := make(values, len(s.Values))
		for i, v := range s.Values {
			switch {
			case v == nil:
			case d.Fit:
				rounded[i] = q.lang.fitted(*v, d.digits)
			default:
				rounded[i] = math.Round(*v*10) / 10
			}
		}
		out.Series = append(out.Series, rounded)
		if s.Metric != "" {
			out.Metrics = append(out.Metrics, s.Metric)
		}
	}
	b, _ := json.Marshal(out) //nolint:errchkjson // numbers that are finite, and texts
	return string(b)
}

// clock returns the time at which an interval starts, as the script writes it, too.
func (d chartData) clock(interval int) chartClock {
	at := time.UnixMilli(d.From + int64(interval)*int64(d.Step)*1000).In(d.zone)
	layout := "15:04:05 MST"
	switch {
	case d.length()*d.Step > int((24 * time.Hour).Seconds()):
		layout = "2006-01-02 15:04 MST"
	case d.Step >= 60:
		layout = "15:04 MST"
	}
	return chartClock{at.UTC().Format(time.RFC3339), at.Format(layout)}
}

func (q *request) chartRow(d chartData, interval int) chartRow {
	row := chartRow{Clock: d.clock(interval)}
	for _, s := range d.Series {
		text := q.t("chart.gap")
		if v := s.Values[interval]; v != nil {
			text = q.lang.chartValue(d, *v)
		}
		row.Values = append(row.Values, text)
	}
	return row
}

// isCurrent reports whether a series has a value in one of the last two intervals: while the
// last has just begun, the value of the complete one before is the present one.
func (d chartData) isCurrent(series int) bool {
	n := d.length()
	return d.mean(d.Series[series].Values, max(0, n-2), n) != nil
}

// trend returns the newest value of a series and its range, in a sentence. One that is not
// current is not called the present one.
func (q *request) trend(d chartData, s chartSeries, current bool) string {
	low, high := math.Inf(1), math.Inf(-1)
	var latest *float64
	for i := range s.Values {
		if v := d.mean(s.Values, i, i+1); v != nil {
			low, high, latest = min(low, *v), max(high, *v), v
		}
	}
	if latest == nil {
		return q.t("chart.none", s.Name)
	}
	from, to := q.lang.chartValue(d, low), q.lang.chartValue(d, high)
	switch {
	case d.Fit:
		return q.t("chart.latest", s.Name, q.lang.chartValue(d, *latest), from, to)
	case !current:
		return q.t("chart.stopped", s.Name, from, to)
	}
	return q.t("chart.trend", s.Name, q.lang.chartValue(d, *latest), from, to)
}

// chartValue returns a value with its unit: with one decimal below 10.
func (l *locale) chartValue(d chartData, v float64) string {
	text := l.number(int64(math.Round(v)))
	if d.Fit {
		text = l.fitted(v, d.digits)
	} else if v < 10 && v != math.Trunc(v) {
		text = l.printer.Sprintf("%.1f", v)
	}
	return strings.TrimSpace(text + " " + d.Unit)
}

// magnitude returns the exponent of a positive number as a power of ten.
func magnitude(v float64) int { return int(math.Floor(math.Log10(v))) }

// fitted returns a value with at most some digits after the decimal point.
func (l *locale) fitted(v float64, digits int) string {
	if math.Abs(v) >= 1e16 || digits > 9 && v != 0 {
		return l.printer.Sprint(format.Scientific(v, format.MaxFractionDigits(3)))
	}
	return l.printer.Sprint(format.Decimal(v, format.MaxFractionDigits(max(digits, 0))))
}
