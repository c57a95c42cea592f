package apitest_test

import (
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
)

func metricHistory(c *apitest.Caller, path, query string) (h broker.MetricHistory) {
	c.Get(path + "/metrics/history" + query).Want(200).Decode(&h)
	return h
}

// lastKnown returns the last value that is known, -1 for none.
func lastKnown(values []*float64) float64 {
	last := -1.0
	for _, v := range values {
		if v != nil {
			last = *v
		}
	}
	return last
}

// highestKnown returns the highest value that is known, -1 for none.
func highestKnown(values []*float64) float64 {
	highest := -1.0
	for _, v := range values {
		if v != nil {
			highest = max(highest, *v)
		}
	}
	return highest
}

// TestMetricHistory waits for a sample of the embedded broker, and finds it after a restart.
func TestMetricHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := apitest.New(t, withAdminPassword, apitest.In(dir))
	d := join(t, api, 5, "d", asAdmin)
	d.Publish("kept", "12345", 1, retained)
	d.Subscribe(0, "a", "b")
	viewer := api.Token("viewer")
	var got broker.MetricHistory
	waitFor(t, "a sample with the client and its subscriptions, and a rate", func() bool { // one before may have seen it connected only
		got = metricHistory(viewer, api.At(""), "")
		return lastKnown(got.Series.Connected.Mean) == 1 && lastKnown(got.Series.Subscriptions.Mean) == 2 && lastKnown(got.Series.MessagesIn.Mean) >= 0
	})
	if got.Step != 10 || got.To-got.From < 3600_000 || got.To-got.From > 3620_000 || len(got.Series.Connected.Mean) != int(got.To-got.From)/10_000 {
		t.Errorf("one hour: %d intervals of %d s from %d to %d", len(got.Series.Connected.Mean), got.Step, got.From, got.To)
	}
	if r := lastKnown(got.Series.Retained.Mean); r < 1 {
		t.Errorf("%v retained messages, want at least the one", r)
	}
	api.Stop()

	api = apitest.New(t, withAdminPassword, apitest.In(dir))
	for _, query := range []string{"?range=1h", "?range=1d", "?step=300", "?range=30d"} {
		got := metricHistory(api.Root, api.At(""), query)
		if n := highestKnown(got.Series.Subscriptions.Mean); n <= 0 || n > 2 { // the last may be a sample since the restart
			t.Errorf("%s after a restart: %v subscriptions", query, n)
		}
		if most := got.Series.Subscriptions.Max; (most == nil) != (query == "?range=1h") || most != nil && highestKnown(most) != 2 {
			t.Errorf("%s after a restart: at most %v subscriptions", query, highestKnown(most))
		}
	}
}

// TestMetricHistoryOfABrokerThatIsAway has no values, and ends with the broker.
func TestMetricHistoryOfABrokerThatIsAway(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addBroker(t, api, object{"name": "gone", "url": "mqtt://127.0.0.1:1"})
	if got := metricHistory(api.Root, api.BrokerAt(id, ""), "?range=3d"); len(got.Series.Dropped.Mean) < 864 || lastKnown(got.Series.Connected.Mean) != -1 {
		t.Errorf("%d intervals, the last known value is %v", len(got.Series.Dropped.Mean), lastKnown(got.Series.Connected.Mean))
	}
	api.Root.Delete(api.BrokerAt(id, "")).Want(204)
	api.Root.Get(api.BrokerAt(id, "/metrics/history")).WantError(404, "NOT_FOUND")
}

// TestMetricHistoryInvalid names every invalid parameter.
func TestMetricHistoryInvalid(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for query, fields := range map[string]string{
		"?range=2h": "query.range", "?step=11": "query.step", "?from=x&to=-1": "query.from query.to",
		"?range=1h&from=1&step=10": "query.from query.step", "?from=2000&to=1000": "query.to",
	} {
		text := string(api.Root.Get(api.At("/metrics/history"+query)).WantError(400, "INVALID_REQUEST").Body)
		for _, field := range strings.Fields(fields) {
			if !strings.Contains(text, `"`+field+`"`) {
				t.Errorf("%s: %s is not named in %s", query, field, text)
			}
		}
	}
	api.Anonymous().Get(api.At("/metrics/history")).WantError(401, "UNAUTHORIZED")
}
