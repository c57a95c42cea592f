package console

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
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
