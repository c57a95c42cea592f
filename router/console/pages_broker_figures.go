package console

import (
	"math"
	"strconv"
	"strings"
)

// sysSample is a sample of a broker's $SYS topics.
type sysSample struct {
	Topics map[string]string `json:"topics"`
	Date   int64             `json:"date"`
}

// sysPrefix is the prefix of the topics in which a broker publishes its figures.
const sysPrefix = "$SYS/broker/"

// value returns the sum of topics below $SYS/broker that have a number, and whether there
// is one.
func (s sysSample) value(names ...string) (sum float64, ok bool) {
	for _, name := range names {
		if n, err := strconv.ParseFloat(strings.TrimSpace(s.Topics[sysPrefix+name]), 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
			sum, ok = sum+n, true
		}
	}
	return sum, ok
}

// point is a value of a series; a gap where there is none.
type point struct {
	At    int64 // epoch milliseconds
	Value float64
	OK    bool
}

// levels returns the values of a gauge.
func levels(samples []sysSample, names ...string) []point {
	points := make([]point, len(samples))
	for i, s := range samples {
		v, ok := s.value(names...)
		points[i] = point{At: s.Date, Value: v, OK: ok}
	}
	return points
}

// rates returns the increase of a counter per second. The first sample, and one after a
// restart of the counter, are gaps: what came before them is unknown.
func rates(samples []sysSample, names ...string) []point {
	points := levels(samples, names...)
	for i := len(points) - 1; i >= 0; i-- {
		if i == 0 || !points[i].OK || !points[i-1].OK || points[i].Value < points[i-1].Value || points[i].At <= points[i-1].At {
			points[i].OK = false
			continue
		}
		points[i].Value = (points[i].Value - points[i-1].Value) / (float64(points[i].At-points[i-1].At) / 1000)
	}
	return points
}

// last returns the newest value of a series.
func last(points []point) (float64, bool) {
	if len(points) == 0 {
		return 0, false
	}
	p := points[len(points)-1]
	return p.Value, p.OK
}

// The size of a sparkline, in its own units.
const (
	sparkWidth  = 120
	sparkHeight = 24
)

// sparkline returns the lines of a series as points of SVG polylines, one for each part
// without a gap. Zero is at the bottom.
func sparkline(points []point) []string {
	top := 0.0
	for _, p := range points {
		if p.OK {
			top = max(top, p.Value)
		}
	}
	if top == 0 {
		top = 1
	}
	var lines []string
	var line []string
	end := func() {
		if len(line) > 1 {
			lines = append(lines, strings.Join(line, " "))
		}
		line = nil
	}
	for i, p := range points {
		if !p.OK {
			end()
			continue
		}
		x := float64(i) * sparkWidth / float64(max(len(points)-1, 1))
		y := 1 + (sparkHeight-2)*(1-p.Value/top)
		line = append(line, strconv.FormatFloat(x, 'f', 1, 64)+","+strconv.FormatFloat(y, 'f', 1, 64))
	}
	end()
	return lines
}

// figure is a number of the overview, which leads to what it counts.
type figure struct {
	Name   string // of its text, "overview.NAME"
	Link   string
	Metric string // its member in the samples of events
	Known  bool
	Value  float64
	Rate   bool // per second
	Lines  []string
}

// Text returns the number in the language of the page: one decimal for small rates.
func (f figure) text(l *locale) string {
	switch {
	case !f.Known:
		return "–"
	case f.Rate && f.Value < 10 && f.Value != math.Trunc(f.Value):
		return l.printer.Sprintf("%.1f", f.Value)
	}
	return l.number(int64(math.Round(f.Value)))
}
