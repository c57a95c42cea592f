package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBrokers_show_load checks that lists of brokers show what connected ones do now: the newest
// values that are known. The history of one that is not connected is not read.
func TestBrokers_show_load(t *testing.T) {
	t.Parallel()
	service := &calledService{responses: map[string]*Response{"listProjects": success(`[{"id":"p-1"}]`),
		"listBrokers": success(`[{"id":"up","status":{"connected":true}},{"id":"down","status":{"error":"refused"}}]`)}}
	service.responses["listBrokers"].Header = http.Header{"X-Total-Count": {"2"}}
	var mu sync.Mutex
	var read []string
	c := newTestConsole(t, func(r *http.Request, operation string, params map[string]string, query string, body []byte) *Response {
		if operation != "getMetricHistory" {
			return service.call(r, operation, params, query, body)
		}
		mu.Lock()
		defer mu.Unlock()
		read = append(read, params["projectId"]+"/"+params["brokerId"])
		if !regexp.MustCompile(`^from=\d+&step=10$`).MatchString(query) {
			t.Errorf("the history is asked for with %s", query)
		}
		return success(`{"series":{"connected":{"mean":[9,1234,null]},"messagesIn":{"mean":[1.25]}}}`)
	})
	for _, page := range []string{"home", "brokers"} {
		text := c.open(page).Body.String()
		const up, down = `<td class="number">1,234</td><td class="number">1.2</td><td class="number">–</td>`, `<td class="number">–</td><td class="number">–</td><td class="number">–</td>`
		if before, after, ok := strings.Cut(strings.NewReplacer("<span>", "", "</span>", "").Replace(text), up); !ok || strings.Contains(before, down) || !strings.Contains(after, down) {
			t.Errorf("%s:\n%s", page, text)
		}
	}
	if got := strings.Join(read, " "); got != "p-1/up 1/up" {
		t.Errorf("the histories of %s were read", got)
	}
}

// TestBrokers_show_features checks that the list of a project's brokers has no feature of which nothing
// is known, as those of a broker that was never connected.
func TestBrokers_show_features(t *testing.T) {
	t.Parallel()
	service := &calledService{responses: map[string]*Response{"listBrokers": success(`[{"id":"new"},
		{"id":"some","capabilities":["streams","cluster"],"status":{"missing":[{"feature":"topic-tree","remedy":"x",
			"reason":"the broker keeps no topic tree, and the connection's member topictree forbids making one"},{"feature":"bans","reason":"none"}]}}]`)}}
	service.responses["listBrokers"].Header = http.Header{"X-Total-Count": {"2"}}
	text := newTestConsole(t, service.call).open("brokers").Body.String()
	if n := strings.Count(text, "connection#features"); n != 1 {
		t.Errorf("%d brokers have features, want 1", n)
	}
	if got := strings.Join(regexp.MustCompile(`class="tag( warn)?"[^>]*>[^<]+`).FindAllString(text, -1), "\n"); got !=
		`class="tag warn" title="the broker keeps no topic tree, and “May subscribe to all topics to build the topic tree” of the connection is off">Topic tree`+"\n"+`class="tag">Streams` {
		t.Errorf("got %s", got)
	}
}

// TestBackups_old marks the newest verified backup if it is old, whatever is beside it.
func TestBackups_old(t *testing.T) {
	t.Parallel()
	made := func(id, state string, age time.Duration) string {
		return fmt.Sprintf(`{"id":%q,"state":%q,"time":%q}`, id, state, time.Now().Add(-age).UTC().Format(time.RFC3339Nano))
	}
	const day = 24 * time.Hour
	for name, x := range map[string]struct {
		list []string
		want int
	}{
		"recent":           {[]string{made("a", "verified", day), made("b", "verified", 30*day)}, 0},
		"old":              {[]string{made("a", "verified", 8*day), made("b", "verified", 30*day)}, 1},
		"newer, damaged":   {[]string{made("a", "damaged", day), made("b", "verified", 8*day)}, 1},
		"none is verified": {[]string{made("a", "unverified", 8*day)}, 0},
	} {
		service := &calledService{responses: map[string]*Response{"listBackups": success("[" + strings.Join(x.list, ",") + "]"), "me": success(`{"root":true}`)}}
		text := newTestConsole(t, service.call).open("backups").Body.String()
		if got := strings.Count(text, "No newer one is verified"); got != x.want {
			t.Errorf("%s: %d backups are marked, want %d:\n%s", name, got, x.want, text)
		}
	}
}
