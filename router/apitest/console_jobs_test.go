package apitest_test

import (
	"strings"
	"testing"

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
