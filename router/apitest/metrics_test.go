package apitest_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// scraper is the token of the scraper.
const scraper = "scrape-me-now"

func withScrapeToken(c *appliance.Config) { c.HTTP.MetricsToken = scraper }

// metrics reads the series with their values.
func metrics(api *apitest.API) map[string]string {
	series := map[string]string{}
	for line := range strings.Lines(string(api.Bearer(scraper).Get("/metrics").Want(200).Body)) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			series[line[:i]] = line[i+1:]
		}
	}
	return series
}

func TestWhoReadsMetrics(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withScrapeToken)
	api.Anonymous().Get("/metrics").WantError(401, "UNAUTHORIZED")
	api.Bearer(scraper+"x").Get("/metrics").WantError(401, "UNAUTHORIZED")
	for _, role := range []string{"viewer", "editor", "admin"} {
		api.Token(role).Get("/metrics").WantError(403, "FORBIDDEN")
	}
	api.Bearer(scraper).Get(api.At("/info")).WantError(401, "UNAUTHORIZED")
	for _, c := range []*apitest.Caller{api.Root, api.Bearer(scraper)} {
		if body := string(c.Get("/metrics").Want(200).Body); !strings.Contains(body, "\nsignalbox_broker_clients_connected 0\n") {
			t.Errorf("the broker's metrics are missing in %s", body)
		}
	}
}

// TestMetricsOfTheBroker are in the same response as those of the API, and are correct.
func TestMetricsOfTheBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, withScrapeToken)
	d := join(t, api, 5, "d", asAdmin)
	d.SubscribeTo(filter("a", 0))
	d.Publish("kept", "12345", 1, retained)
	if code := connectTo(t, api.Listeners[0], nil, 5).SendConnect(withID("x"), user("nobody", "x")).Reason; code == 0 {
		t.Fatal("a stranger was let in")
	}
	got := metrics(api)
	for name, want := range map[string]string{
		"clients_connected": "1", "clients_connected_max": "1", "sessions": "1", "subscriptions": "1", "subscriptions_shared": "0",
		"messages_received_total": "1", "payload_received_bytes_total": "5", "logins_total": "1", "logins_refused_total": "1",
		"connections_accepted_total": "2", "store_writable": "1", "messages_queued": "0", `messages_dropped_total{reason="queue-full"}`: "0",
		"topictree_messages_not_tracked_total": "0",
	} {
		if got := got["signalbox_broker_"+name]; got != want {
			t.Errorf("signalbox_broker_%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{`signalbox_info{version="test"}`, `signalbox_brokers{connected="true"}`, "go_goroutines"} {
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestMetricsAreBounded has many clients and topics: no series is named after one.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, withScrapeToken)
	crowd := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprint("name-", i)
			d := join(t, api, 5, name, asAdmin)
			d.SubscribeTo(filter(name+"/y", 0))
			d.Publish(name+"/x", name, 1, retained)
			connectTo(t, api.Listeners[0], nil, 5).SendConnect(withID(name+"x"), user(name, name))
			api.Root.Get("/api/" + name).Want(404)
			api.Root.Get(api.At("/clients?username=" + name)).Want(404)
		}
		metrics(api) // itself a request that is counted
	}
	crowd(0, 1)
	few := slices.Sorted(maps.Keys(metrics(api)))
	crowd(1, 20)
	many := slices.Sorted(maps.Keys(metrics(api)))
	if diff := cmp.Diff(few, many); diff != "" {
		t.Errorf("(-few clients +many):\n%s", diff)
	}
	if i := slices.IndexFunc(many, func(series string) bool { return strings.Contains(series, "name-") }); i >= 0 {
		t.Errorf("%s tells of somebody", many[i])
	}
}

// metricName matches the names of the service's own metrics.
var metricName = regexp.MustCompile(`\bsignalbox_[a-z0-9_]*[a-z0-9]\b`)

// TestManualListsEveryMetric compares the manual's page with the metrics that the service
// describes and, for those that appear only with a bridge or a cluster, with their names in the
// code, where counters stand without their suffix.
func TestManualListsEveryMetric(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../manual/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := metricName.FindAllString(string(page), -1)
	described := metricsDescribed(apitest.New(t, withScrapeToken))
	inCode := metricsInCode(t)
	for _, name := range slices.Sorted(maps.Keys(described)) {
		if !slices.Contains(listed, name) {
			t.Errorf("the manual does not list %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inCode)) {
		if !slices.Contains(listed, name) && !slices.Contains(listed, name+"_total") {
			t.Errorf("the manual does not list %s", name)
		}
	}
	for _, name := range listed {
		if !described[name] && !inCode[name] && !inCode[strings.TrimSuffix(name, "_total")] {
			t.Errorf("the manual lists %s, which does not exist", name)
		}
	}
	if len(listed) < 80 || len(inCode) < 50 {
		t.Errorf("only %d metrics are listed, %d in the code", len(listed), len(inCode))
	}
}

// metricsDescribed returns the metrics that a service without bridges and clusters has.
func metricsDescribed(api *apitest.API) map[string]bool {
	described := map[string]bool{}
	for line := range strings.Lines(string(api.Bearer(scraper).Get("/metrics").Want(200).Body)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "HELP" && strings.HasPrefix(fields[2], "signalbox_") {
			described[fields[2]] = true
		}
	}
	return described
}

// metricsInCode returns the names of metrics that the program's code has as a whole.
func metricsInCode(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	quoted := regexp.MustCompile(`"(signalbox_[a-z0-9_]*[a-z0-9])["{]|describe\("([a-z0-9_]+)"`)
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/scripts/") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, m := range quoted.FindAllStringSubmatch(string(code), -1) {
			if m[2] != "" {
				m[1] = "signalbox_broker_" + m[2] // the collector of the embedded broker
			}
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(names, "signalbox_session") // the cookie
	return names
}
