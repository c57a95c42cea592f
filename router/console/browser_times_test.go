package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// The most that pages may take, in the best of the turns that a machine with other work needs for it.
const (
	paintRatio = 2                      // times an empty page, which takes 80 ms where these budgets were measured
	filterWait = 200 * time.Millisecond // for the next key; then, to the rows, as long as a page
	leastTurns = 10
	meters     = 60
)

// TestCampaignTimes compares the first paint of the first page with that of an empty one, in turns, and
// measures the time from a key in a filter to the rows that it selects. The time of a page of a broker,
// which takes longer, is written only (scripts/bench/RESULTS.md).
func TestCampaignTimes(t *testing.T) {
	api := apitest.New(t)
	for i := range meters {
		api.Root.Post(api.At("/clients"), object{"username": fmt.Sprintf("meter-%02d", i), "password": secret}).Want(204)
	}
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!DOCTYPE html><title>empty</title><p>empty")
	}))
	t.Cleanup(empty.Close)
	clients := api.URL + "/ui/p/" + api.Project + "/b/" + api.Embedded + "/clients"
	p := signIn(t, clients)
	home := api.URL + "/ui/home"
	least := map[string]time.Duration{}
	turns := 0
	suite.Eventually(t, func() error {
		for _, page := range []string{empty.URL, home, clients} {
			least[page] = shorter(least[page], firstPaint(p, page))
		}
		if turns++; turns < leastTurns {
			return fmt.Errorf("%d turns are too few", turns)
		}
		if least[home] > paintRatio*least[empty.URL] {
			return fmt.Errorf("first paint after %s, of an empty page after %s, at most %d times that is allowed", least[home], least[empty.URL], paintRatio)
		}
		return nil
	})
	t.Logf("first paints: %v", least)
	p.Go(clients)
	var filter time.Duration
	turns = 0
	suite.Eventually(t, func() error {
		filter = shorter(filter, filterTime(p, fmt.Sprintf("meter-%02d", turns%meters)))
		if turns++; turns < leastTurns || filter > filterWait+paintRatio*least[empty.URL] {
			return fmt.Errorf("after %d turns a filter takes %s; at most %s and %d times an empty page (%s) are allowed", turns, filter, filterWait, paintRatio, least[empty.URL])
		}
		return nil
	})
	if t.Logf("a filter takes %s", filter); filter < filterWait {
		t.Errorf("a filter takes %s, and does not wait for the next key", filter)
	}
}

// shorter returns the shorter one of two times, of which the first is 0 in the beginning.
func shorter(before, now time.Duration) time.Duration {
	if before == 0 {
		return now
	}
	return min(before, now)
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
