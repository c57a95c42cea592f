package sys_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestCollector(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	r := newRig(everything())
	registry.MustRegister(r.Collector())
	want := map[string]float64{
		"packets_received_total": 1, "packets_sent_total": 2, "messages_received_total": 3, "messages_sent_total": 4,
		"payload_received_bytes_total": 5, "payload_sent_bytes_total": 6, "received_bytes_total": 24, "sent_bytes_total": 25,
		"connections_accepted_total": 26, "logins_total": 13, "logins_left_total": 39, "login_bytes": 40, "logins_refused_total": 14, "sessions_expired_total": 18,
		"topictree_messages_not_tracked_total": 34,
		"connections":                          29, "connections_half_open": 30, "clients_connected": 15, "clients_connected_max": 16,
		"sessions": 38, "subscriptions": 31, "subscriptions_shared": 12, "messages_retained": 20, "messages_queued": 21,
		"messages_queued_bytes": 22, "messages_stored": 32, "messages_stored_bytes": 33, "store_writable": 0,
		"messages_dropped_total queue-full": 9, "messages_dropped_total expired": 10, "messages_dropped_total too-large": 0,
		"messages_dropped_total not-stored": 0, "messages_dropped_total quota": 0,
		"quota_refused_total sessions": 41, "quota_refused_total session-bytes": 0, "quota_refused_total subscription-bytes": 0, "quota_refused_total queued-bytes": 0,
		"quota_refused_total retained-messages": 0, "quota_refused_total retained-bytes": 0,
		"connections_lost_total TLS": 27, "connections_lost_total ban": 28,
	}
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.reading.StoreFails = false
	if got := gather(t, registry)["store_writable"]; got != 1 {
		t.Errorf("store_writable is %v", got)
	}
}

// gather returns the values by name and, if there is one, label; it expects all names to
// begin with the broker's prefix, and counters to end in _total.
func gather(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), "signalbox_broker_")
		if !ok || f.GetHelp() == "" || strings.HasSuffix(name, "_total") != (f.GetType().String() == "COUNTER") {
			t.Errorf("%s is a %s: %s", f.GetName(), f.GetType(), f.GetHelp())
		}
		for _, m := range f.GetMetric() {
			key := name
			for _, label := range m.GetLabel() {
				key = fmt.Sprint(key, " ", label.GetValue())
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}
