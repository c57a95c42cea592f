package sys

import (
	"math"
	"strconv"
	"time"
)

// spans are the times, in minutes, over which loads are averaged.
var spans = [...]struct {
	minutes float64
	name    string
}{{1, "1min"}, {5, "5min"}, {15, "15min"}}

// measured are the counters with a load.
var measured = [...]struct {
	name string
	of   func(*Reading) int64
}{
	{"messages/received", func(r *Reading) int64 { return r.PacketsReceived }},
	{"messages/sent", func(r *Reading) int64 { return r.PacketsSent }},
	{"publish/received", func(r *Reading) int64 { return r.PublishesReceived }},
	{"publish/sent", func(r *Reading) int64 { return r.PublishesSent }},
	{"publish/dropped", (*Reading).dropped},
	{"bytes/received", func(r *Reading) int64 { return r.WireReceived }},
	{"bytes/sent", func(r *Reading) int64 { return r.WireSent }},
	{"sockets", func(r *Reading) int64 { return r.Accepted }},
	{"connections", func(r *Reading) int64 { return r.Connections }},
}

// loads are the growth of counters per minute, as exponential moving averages. They start
// with zero, as Mosquitto's do.
type loads struct {
	at       time.Time // of the last reading
	seen     [len(measured)]int64
	averages [len(measured)][len(spans)]float64
}

// update adds a reading. After t minutes the earlier average has the weight e^(-t/span),
// and the growth since then the rest.
func (l *loads) update(now time.Time, r *Reading) {
	minutes := now.Sub(l.at).Minutes()
	known := !l.at.IsZero() && minutes > 0
	for i, m := range measured {
		n := m.of(r)
		if known {
			rate := float64(n-l.seen[i]) / minutes
			for j, span := range spans {
				before := math.Exp(-minutes / span.minutes)
				l.averages[i][j] = rate*(1-before) + l.averages[i][j]*before
			}
		}
		l.seen[i] = n
	}
	l.at = now
}

func (f figures) loads(l *loads) {
	for i, m := range measured {
		for j, span := range spans {
			f.text("load/"+m.name+"/"+span.name, strconv.FormatFloat(l.averages[i][j], 'f', 2, 64))
		}
	}
}
