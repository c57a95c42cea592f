package console_test

import (
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// TestWatchList puts a topic on the watch list, whose address also shows it to others: it stays
// there while the topics are searched, and follows the topic when the page is loaded again.
func TestWatchList(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	publish := func(topic, payload string) {
		api.Root.Post(api.At("/messages"), object{"topic": topic, "payload": payload, "qos": 1}).Want(204)
	}
	api.Root.Put(api.At("/topictree/ttl"), object{"ttl_sec": 3600}).Want(204)
	publish(markup, "21.5")
	publish("valve", "open")
	s := newSession(t, api.URL)
	p := browsertest.Open(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/topics", browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value))
	p.Click(`#list a[href*="watched="]`)
	p.WaitFor(`document.querySelector("#watched tbody")?.textContent.includes("21.5") === true`)
	p.Fill("#filter", "valve")
	p.WaitFor(`document.querySelectorAll("#list tbody tr").length === 1 && new URLSearchParams(location.search).get("search") === "valve"`)
	checkText(t, p)
	p.Check("watch list", browsertest.Some...)
	publish(markup, "22.5")
	p.Reload()
	p.WaitFor(`document.querySelector("#watched tbody")?.textContent.includes("22.5") === true`)
	p.Click(`#watched tbody a`)
	p.WaitFor(`document.querySelector("#watched").hidden && !location.search.includes("watched=")`)
}
