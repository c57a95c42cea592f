package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// The most that pages may take, at the best of some attempts, in addition to twice the time of an empty
// page, which grows with the load of the machine.
const (
	paintBudget  = 80 * time.Millisecond
	filterBudget = 300 * time.Millisecond // from a key to the rows, of which 200 ms wait for the next key
	attempts     = 10
)

// TestCampaignTimes compares the first paint of pages with that of an empty one, in turns, and
// measures the time from a key in a filter to the rows that it selects.
func TestCampaignTimes(t *testing.T) {
	api := apitest.New(t)
	for i := range 60 {
		api.Root.Post(api.At("/clients"), object{"username": fmt.Sprintf("meter-%02d", i), "password": secret}).Want(204)
	}
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!DOCTYPE html><title>empty</title><p>empty")
	}))
	t.Cleanup(empty.Close)
	clients := api.URL + "/ui/p/" + api.Project + "/b/" + api.Embedded + "/clients"
	p := signIn(t, clients)
	took := map[string][]time.Duration{}
	pages := []string{empty.URL, api.URL + "/ui/home", clients}
	for range attempts {
		for _, page := range pages {
			took[page] = append(took[page], firstPaint(p, page))
		}
	}
	least := slices.Min(took[empty.URL])
	for _, page := range pages {
		best := slices.Min(took[page])
		if t.Logf("%s: first paint after %s", page, best); best > 2*least+paintBudget {
			t.Errorf("%s: first paint after %s, of an empty page after %s, at most twice that and %s more are allowed", page, best, least, paintBudget)
		}
	}
	var filters []time.Duration
	for i := range attempts {
		filters = append(filters, filterTime(p, fmt.Sprintf("meter-%02d", i)))
	}
	if best := slices.Min(filters); best > 2*least+filterBudget || best < 200*time.Millisecond {
		t.Errorf("filters take %s, at most %s more than twice an empty page (%s) are allowed, and 200 ms wait for the next key", filters, filterBudget, least)
	} else {
		t.Logf("a filter takes %s", best)
	}
}

// firstPaint loads a page and returns when something of it was painted.
func firstPaint(p *browsertest.Page, page string) time.Duration {
	p.Go(page)
	const paint = "performance.getEntriesByName('first-contentful-paint')"
	p.WaitFor(paint + ".length")
	return milliseconds(p, paint+"[0].startTime")
}

// filterTime changes the filter of the list, and returns how long it takes to show the row.
func filterTime(p *browsertest.Page, username string) time.Duration {
	p.Evaluate(fmt.Sprintf(`(() => {
		const field = document.querySelector("[name=filterValue]"), began = performance.now()
		window.took = 0
		const observer = new MutationObserver(() => {
			if (document.querySelector("#list tbody")?.innerText.includes(%q) && document.querySelectorAll("#list tbody tr").length === 1) {
				window.took = performance.now() - began
				observer.disconnect()
			}
		})
		observer.observe(document.querySelector("main"), { childList: true, subtree: true })
		field.value = %[1]q
		field.dispatchEvent(new Event("input", { bubbles: true }))
	})()`, username), nil)
	p.WaitFor("window.took > 0")
	return milliseconds(p, "window.took")
}

func milliseconds(p *browsertest.Page, expression string) time.Duration {
	var ms float64
	p.Evaluate(expression, &ms)
	return time.Duration(ms * float64(time.Millisecond))
}
