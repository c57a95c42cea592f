package monitor

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
)

var epoch = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// report is a sample of a broker: when it was taken, when the broker reported it, and its
// uptime, published messages and clients; negative ones are not reported.
func report(at, reported time.Duration, up, published, clients int) broker.SysTopics {
	s := broker.SysTopics{Topics: map[string]string{}, Date: epoch.Add(at).UnixMilli(), Reported: epoch.Add(reported)}
	set := func(name string, n int, unit string) {
		if n >= 0 {
			s.Topics[sysPrefix+name] = fmt.Sprint(n, unit)
		}
	}
	set("uptime", up, " seconds")
	set("publish/messages/received", published, "")
	set("clients/connected", clients, "")
	return s
}

// TestMeter computes rates between reports only.
func TestMeter(t *testing.T) {
	t.Parallel()
	const s = time.Second
	none := math.NaN()
	for _, c := range []struct {
		name    string
		samples []broker.SysTopics
		want    []float64 // rates of published messages
	}{
		{"the first report has none", []broker.SysTopics{report(0, 0, 1, 1000, 1), report(10*s, 10*s, 11, 1100, 1)}, []float64{none, 10}},
		{"between reports it remains", []broker.SysTopics{report(0, 0, 1, 0, 1), report(60*s, 60*s, 61, 600, 1),
			report(70*s, 60*s, 61, 600, 1), report(110*s, 60*s, 61, 600, 1), report(181*s, 60*s, 61, 600, 1)}, []float64{none, 10, 10, 10, none}},
		{"after a pause there is none", []broker.SysTopics{report(0, 0, 1, 0, 1), report(121*s, 121*s, 122, 600, 1),
			report(131*s, 131*s, 132, 610, 1)}, []float64{none, none, 1}},
		{"after a restart there is none", []broker.SysTopics{report(0, 0, 100, 50, 1), report(10*s, 10*s, 5, 60, 1),
			report(20*s, 20*s, 15, 70, 1)}, []float64{none, none, 1}},
		{"a counter that is lower has restarted", []broker.SysTopics{report(0, 0, -1, 50, 1), report(10*s, 10*s, -1, 49, 1),
			report(20*s, 20*s, -1, 49, 1)}, []float64{none, none, 0}},
		{"a report that follows at once is ignored", []broker.SysTopics{report(0, 0, 1, 0, 1), report(10*s, 10*s, 11, 10, 1),
			report(10*s, 10*s+time.Millisecond, 11, 20, 1),
			report(20*s, 20*s, 21, 30, 1)}, []float64{none, 1, 1, 2}},
		{"what is not reported has none", []broker.SysTopics{report(0, 0, 1, -1, 1), report(10*s, 10*s, 11, 100, 1),
			report(20*s, 20*s, 21, -1, 1)}, []float64{none, none, none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var m meter
			for i, sample := range c.samples {
				got := m.next(sample)
				if rate := got[messagesIn]; rate != c.want[i] && (isKnown(rate) || isKnown(c.want[i])) {
					t.Errorf("sample %d: rate %v, want %v", i, rate, c.want[i])
				}
				if got[connected] != 1 || isKnown(got[retained]) {
					t.Errorf("sample %d: %v clients, %v retained messages, want 1 and unknown", i, got[connected], got[retained])
				}
			}
		})
	}
	if got := new(meter).next(broker.SysTopics{Topics: map[string]string{sysPrefix + "clients/connected": "1"}}); isKnown(got[connected]) {
		t.Errorf("%v clients of a tree that was not reported", got[connected])
	}
}

// TestRead reads the topics of Mosquitto, and refuses what is no count.
func TestRead(t *testing.T) {
	t.Parallel()
	got := read(map[string]string{
		"$SYS/broker/clients/connected": "7", "$SYS/broker/subscriptions/count": "5", "$SYS/broker/shared_subscriptions/count": "2",
		"$SYS/broker/retained messages/count": "3", "$SYS/broker/publish/messages/received": "-1", "$SYS/broker/publish/messages/sent": "NaN",
		"$SYS/broker/bytes/received": "12x", "$SYS/broker/bytes/sent": "1e300",
	})
	want := values{7, 7, 3, math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, text := range []string{"", strings.Repeat("9", 400), "inf", "-0.1"} {
		if v := number(text); isKnown(v) {
			t.Errorf("%q: got %v", text, v)
		}
	}
}
