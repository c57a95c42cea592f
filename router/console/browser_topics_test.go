package console_test

import (
	"net/url"
	"strings"
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

// TestValuesOverTime watches a topic and sees its numbers as charts that follow it, each with a
// table and values to read. The names of members and topics are text.
func TestValuesOverTime(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	publish := func(payload string) {
		api.Root.Post(api.At("/messages"), object{"topic": markup, "payload": payload, "qos": 1}).Want(204)
	}
	s := newSession(t, api.URL)
	page := api.URL + "/ui/p/" + api.Project + "/b/" + api.Embedded + "/topics?watched=" + url.QueryEscape(markup)
	p := browsertest.Open(t, page, browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value))
	p.WaitFor(`!document.querySelector("#watched figure") && document.querySelector("#watched tbody") !== null`)
	chooseRefresh(p)
	const line = `[...document.querySelectorAll("#values-0-0 .plot :is(.line, .point)")].map(e => e.getAttribute("d")).join("")`
	follow := func(payload, text string) {
		publish(payload)
		p.WaitFor(`document.querySelector("#watched").textContent.includes("` + text + `")`)
	}
	var before, after string
	follow(`{"`+strings.ReplaceAll(markup, `"`, `\"`)+`":20.13,"b":-4}`, "20.13 last")
	p.Evaluate(line, &before)
	p.Click("#values-0-0-table summary")
	follow(`{"`+strings.ReplaceAll(markup, `"`, `\"`)+`":20.57}`, "20.57")
	p.Evaluate(line, &after)
	if before == "" || before == after {
		t.Errorf("the line was %q and is %q", before, after)
	}
	p.WaitFor(`document.querySelector("#values-0-0-table").open && document.querySelectorAll("#watched figure").length === 2`)
	p.Evaluate(`document.querySelector("#values-0-0-read").focus()`, nil)
	p.Press(browsertest.Left)
	p.WaitFor(`document.querySelector("#values-0-0 .reading").textContent !== ""`)
	follow("21", "Value: 21 last")
	p.WaitFor(`document.activeElement.id === "values-0-0-read" && document.querySelector("#values-0-0 .reading").textContent !== ""`)
	checkText(t, p)
	p.Check("numbers over time", browsertest.Some...)
}
