package apitest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// TestConsoleJobs orders sessions by their queues and changes many of them at once.
func TestConsoleJobs(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := visit(t, api, "editor")
	for _, id := range []string{"meter-1", "meter-2", hostileID} {
		join(t, api, 5, id, asAdmin, persistent)
	}
	away := join(t, api, 5, "away", asAdmin, persistent)
	away.Subscribe(1, "q/#")
	away.Disconnect()
	api.Root.Post(api.At("/messages"), object{"topic": "q/1", "payload": "waits", "qos": 1}).Want(204)

	v.page("jobs", "No job has run")
	if text := v.page("sessions?by=queue", "away", "The highest of 4 sessions"); strings.Contains(text, "meter-1") {
		t.Error("a session without a queue is among the longest queues")
	}
	v.page("sessions?by=subscriptions", "away")

	v.again("sessions", doing("ask-disconnect"), 400, "No session was selected")
	asked := doing("ask-disconnect")
	asked["selected"] = []string{"meter-1", hostileID}
	v.again("sessions", asked, 200, "This concerns 2 sessions", `value="meter-1"`)
	done := doing("disconnect")
	done["selected"] = asked["selected"]
	job := v.Want(v.Post(v.base+"sessions", done), 200, "Disconnect clients")
	v.harmless(job)
	suite.WaitFor(t, "the job to end", func() bool { return strings.Contains(v.Get(job.Path).Text, "Completed") })
	suite.WaitFor(t, "the clients to be disconnected", func() bool { return strings.Contains(v.page("sessions?state=connected", "meter-2"), "1 to 1 of 1") })
	v.page("jobs", "Disconnect clients", "Completed")

	all := withQuery("sessions/matching", "state", "connected", "action", "disconnect")
	v.page(all, "meter-2")
	job = v.Want(v.Post(v.base+all, doing("disconnect")), 200, "Disconnect clients")
	suite.WaitFor(t, "the job to end", func() bool { return strings.Contains(v.Get(job.Path).Text, "Completed") })

	matching := withQuery("sessions/matching", "filterTarget", "clientid", "filterValue", "METER", "action", "end")
	v.page(matching, "This concerns 2 sessions", "meter-1", "meter-2")
	job = v.Want(v.Post(v.base+matching, doing("end")), 200, "End sessions")
	suite.WaitFor(t, "the job to end", func() bool { return strings.Contains(v.Get(job.Path).Text, "Completed") })
	v.page("sessions", "1 to 2 of 2", "away")

	viewer := visit(t, api, "viewer")
	if text := viewer.page("sessions", "away"); strings.Contains(text, `name="selected"`) {
		t.Error("a viewer may select sessions")
	}
	viewer.Want(viewer.Post(viewer.base+"sessions", done), 403)
}

// TestConsoleClientJobs enables, disables and deletes many clients at once, after a question with
// their number.
func TestConsoleClientJobs(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for _, name := range []string{"meter-1", "meter-2", "meter-3", "valve"} {
		api.Root.Post(api.At("/clients"), object{"username": name, "password": "a-long-one"}).Want(204)
	}
	v := visit(t, api, "editor")
	do := func(page string, form url.Values) {
		t.Helper()
		job := v.Want(v.Post(v.base+page, form), 200, " clients</dd>")
		suite.WaitFor(t, "the job to end", func() bool { return strings.Contains(v.Get(job.Path).Text, "Completed") })
	}
	wantDisabled := func(want ...string) {
		t.Helper()
		var got []string
		for _, c := range []string{"meter-1", "meter-2", "meter-3", "valve"} {
			if found, ok := one[broker.Client](api, "/clients", "username", c); ok && found.Disabled {
				got = append(got, c)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("disabled: %v, want %v", got, want)
		}
	}

	v.again("clients", doing("ask-disable"), 400, "No client was selected")
	some := func(action string) url.Values {
		form := doing(action)
		form["selected"] = []string{"meter-1", "valve"}
		return form
	}
	v.again("clients", some("ask-disable"), 200, "This concerns 2 clients", "Their connections are closed", "Disable 2 clients")
	wantDisabled()
	do("clients", some("disable"))
	wantDisabled("meter-1", "valve")
	do("clients", some("enable"))
	wantDisabled()

	matching := func(action string) string {
		return withQuery("clients/matching", "filterTarget", "username", "filterMode", "startsWith", "filterValue", "meter", "action", action)
	}
	v.page(withQuery("clients", "filterTarget", "username", "filterMode", "startsWith", "filterValue", "meter"), "Delete all 3 clients that match", "clients/matching?action=delete")
	v.page(matching("disable"), "This concerns 3 clients", "meter-1", "meter-3")
	do(matching("disable"), doing("disable"))
	wantDisabled("meter-1", "meter-2", "meter-3")
	do(matching("delete"), doing("delete"))
	if text := v.page("clients", "valve"); strings.Contains(text, "meter-") {
		t.Errorf("clients remain:\n%s", text)
	}
	if text := v.page("clients/matching?action=delete", "No client was selected"); strings.Contains(text, `value="delete"`) {
		t.Error("all clients can be deleted without a filter")
	}
	v.again("clients/matching?action=delete", doing("delete"), 400, "No client was selected")

	viewer := visit(t, api, "viewer")
	if text := viewer.page("clients", "valve"); strings.Contains(text, `name="selected"`) {
		t.Error("a viewer may select clients")
	}
	viewer.Want(viewer.Post(viewer.base+"clients", some("delete")), 403)
	viewer.Want(viewer.Post(viewer.base+matching("delete"), doing("delete")), 403)
}
