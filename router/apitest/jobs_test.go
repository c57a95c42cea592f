package apitest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// states returns which of the clients exist, and whether they are disabled.
func states(api *apitest.API) map[string]bool {
	var all []broker.Client
	api.Root.Get(api.At("/clients?filterMode=startsWith&filterValue=meter-")).Want(200).Decode(&all)
	disabled := map[string]bool{}
	for _, c := range all {
		disabled[c.Username] = c.Disabled
	}
	return disabled
}

func countDisabled(api *apitest.API) (disabled, all int) {
	for _, is := range states(api) {
		if all++; is {
			disabled++
		}
	}
	return disabled, all
}

func wantDisabled(t *testing.T, api *apitest.API, disabled, all int) {
	t.Helper()
	if gotDisabled, gotAll := countDisabled(api); gotDisabled != disabled || gotAll != all {
		t.Errorf("%d of %d clients are disabled, want %d of %d", gotDisabled, gotAll, disabled, all)
	}
}

// TestJobsOfClients plans, disables, enables and deletes clients.
func TestJobsOfClients(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	names := meters(api, 25)
	all := object{"filterMode": "startsWith", "filterValue": "METER-"}

	plan := createJob(api.Root, api, object{"action": "disableClients", "filter": all, "dry_run": true})
	wantJob(t, plan, "planned", 25, 0, 0)
	if plan.ID != "" || !slices.Equal(plan.Names, names[:20]) {
		t.Errorf("plan %+v", plan)
	}
	wantDisabled(t, api, 0, 25)
	var list []handlers.JobRecord
	if api.Root.Get(api.At("/jobs")).Want(200).Decode(&list); len(list) != 0 {
		t.Errorf("a plan is listed: %+v", list)
	}

	done := runJob(t, api, object{"action": "disableClients", "filter": all})
	wantJob(t, done, "completed", 25, 25, 0)
	if done.CreatedBy != "Administrator" || done.Action != "disableClients" || done.EndedAt.Before(done.StartedAt) || !slices.Equal(done.Names, names[:20]) {
		t.Errorf("record %+v", done)
	}
	wantDisabled(t, api, 25, 25)

	done = runJob(t, api, object{"action": "enableClients", "ids": []string{"meter-03", "nobody", "meter-03", "meter-04"}})
	wantJob(t, done, "completed", 3, 3, 1)
	if len(done.Failures) != 1 || done.Failures[0].Name != "nobody" || done.Failures[0].Code != "NOT_FOUND" || done.Failures[0].Message == "" {
		t.Errorf("failures %+v", done.Failures)
	}
	wantDisabled(t, api, 23, 25)

	done = runJob(t, api, object{"action": "deleteClients", "filter": object{"filterTarget": "textname", "filterMode": "equals", "filterValue": "Hall 1",
		"state": "disabled"}})
	wantJob(t, done, "completed", 11, 11, 0) // of twelve with an odd number, one is enabled
	wantDisabled(t, api, 12, 14)
	if is, ok := states(api)["meter-03"]; is || !ok {
		t.Error("a client that is enabled was deleted")
	}
	wantJob(t, createJob(api.Root, api, object{"action": "deleteClients", "filter": object{"state": "disabled"}, "dry_run": true}), "planned", 12, 0, 0)

	if api.Root.Get(api.At("/jobs")).Want(200).Decode(&list); len(list) != 3 || list[0].Action != "deleteClients" || len(list[1].Failures) != 0 || list[1].Failed != 1 {
		t.Errorf("jobs %+v", list)
	}
}

// TestJobsOfSessions disconnects clients and ends sessions.
func TestJobsOfSessions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	stay, leave := join(t, api, 5, "pump-stay", asAdmin, persistent), join(t, api, 5, "pump-leave", asAdmin, persistent)
	join(t, api, 5, "fan", asAdmin, persistent)
	leave.Disconnect()
	wantDetail(t, api, "pump-leave", false, connected)

	done := runJob(t, api, object{"action": "disconnect", "filter": object{"filterValue": "PUMP"}})
	wantJob(t, done, "completed", 1, 1, 0)
	stay.WantDisconnect(0x98)
	wantDetail(t, api, "pump-stay", false, connected)
	wantDetail(t, api, "fan", true, connected)

	done = runJob(t, api, object{"action": "disconnect", "ids": []string{"pump-stay"}})
	wantJob(t, done, "completed", 1, 1, 1)

	plan := createJob(api.Root, api, object{"action": "forgetSession", "filter": object{"state": "connected"}, "dry_run": true})
	if !slices.Equal(plan.Names, []string{"fan"}) {
		t.Errorf("connected: %v", plan.Names)
	}
	plan = createJob(api.Root, api, object{"action": "forgetSession", "filter": object{"filterTarget": "username", "filterValue": mqttAdmin}, "dry_run": true})
	if !slices.Equal(plan.Names, []string{"fan", "pump-leave", "pump-stay"}) {
		t.Errorf("of the user: %v", plan.Names)
	}
	done = runJob(t, api, object{"action": "forgetSession", "filter": object{"state": "disconnected"}})
	wantJob(t, done, "completed", 2, 2, 0)
	for _, gone := range []string{"pump-stay", "pump-leave"} {
		api.Root.Get(api.At("/client-inspect/detail?clientid="+gone)).WantError(404, "NOT_FOUND")
	}
	wantDetail(t, api, "fan", true, connected)
}

// TestJobsOfRetainedMessages deletes retained messages.
func TestJobsOfRetainedMessages(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for i := range 30 {
		api.Root.Post(api.At("/messages"), object{"topic": "plant/" + strconv.Itoa(i%3) + "/" + strconv.Itoa(i), "payload": "x", "retain": true}).Want(204)
	}
	done := runJob(t, api, object{"action": "deleteRetained", "filter": object{"topicFilter": "plant/1/#"}})
	wantJob(t, done, "completed", 10, 10, 0)
	done = runJob(t, api, object{"action": "deleteRetained", "ids": []string{"plant/0/0", "plant/1/1"}})
	wantJob(t, done, "completed", 2, 2, 1)
	var left []broker.RetainedMessage
	if api.Root.Get(api.At("/messages/retained?filter=plant/%23")).Want(200).Decode(&left); len(left) != 19 {
		t.Errorf("%d are left, want 19", len(left))
	}
}

func TestInvalidJobs(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	meters(api, 1)
	some, many := object{"filterValue": "x"}, make([]string, 10_001)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	for name, c := range map[string]struct {
		body object
		want []string
	}{
		"no action":               {object{"ids": []string{"a"}}, []string{"body.action"}},
		"unknown action":          {object{"action": "explode", "ids": []string{"a"}}, []string{"body.action"}},
		"nothing selected":        {object{"action": "disableClients"}, []string{"body.ids"}},
		"selected twice":          {object{"action": "disableClients", "ids": []string{"a"}, "filter": some}, []string{"body.filter"}},
		"no ids":                  {object{"action": "disableClients", "ids": []string{}}, []string{"body.ids"}},
		"many ids":                {object{"action": "disableClients", "ids": many}, []string{"body.ids"}},
		"empty id":                {object{"action": "disableClients", "ids": []string{"a", "", "b", ""}}, []string{"body.ids[1]", "body.ids[3]"}},
		"no topic":                {object{"action": "deleteRetained", "ids": []string{"a/+"}}, []string{"body.ids[0]"}},
		"everything":              {object{"action": "deleteClients", "filter": object{}}, []string{"body.filter.filterValue"}},
		"unknown target":          {object{"action": "disconnect", "filter": object{"filterTarget": "rolename", "filterValue": "x"}}, []string{"body.filter.filterTarget"}},
		"unknown mode":            {object{"action": "disconnect", "filter": object{"filterMode": "like", "filterValue": "x"}}, []string{"body.filter.filterMode"}},
		"no expression":           {object{"action": "disableClients", "filter": object{"filterMode": "regex", "filterValue": "("}}, []string{"body.filter.filterValue"}},
		"state of sessions":       {object{"action": "deleteClients", "filter": object{"state": "connected"}}, []string{"body.filter.state"}},
		"state of clients":        {object{"action": "forgetSession", "filter": object{"state": "disabled"}}, []string{"body.filter.state"}},
		"not connected":           {object{"action": "disconnect", "filter": object{"state": "disconnected"}}, []string{"body.filter.state"}},
		"no topic filter":         {object{"action": "deleteRetained", "filter": object{}}, []string{"body.filter.topicFilter"}},
		"no valid topic filter":   {object{"action": "deleteRetained", "filter": object{"topicFilter": "a#"}}, []string{"body.filter.topicFilter"}},
		"a value beside a filter": {object{"action": "deleteRetained", "filter": object{"topicFilter": "#", "filterValue": "x"}}, []string{"body.filter.filterValue"}},
		"a topic filter":          {object{"action": "deleteClients", "filter": object{"filterValue": "x", "topicFilter": "#"}}, []string{"body.filter.topicFilter"}},
	} {
		for _, dry := range []bool{true, false} {
			c.body["dry_run"] = dry
			if got := api.Root.Post(api.At("/jobs"), c.body).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, c.want) {
				t.Errorf("%s: named %v, want %v", name, got, c.want)
			}
		}
	}
	wantDisabled(t, api, 0, 1)
	api.Root.Post(api.At("/jobs"), apitest.Text(`{"action":"disableClients","ids":["`+strings.Repeat("x", 1<<20)+`"]}`)).WantError(400, "PAYLOAD_TOO_LARGE")
}

// TestJobsNeedAnEditor calls the operations with every role.
func TestJobsNeedAnEditor(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	meters(api, 2)
	body := object{"action": "disableClients", "ids": []string{"meter-00"}}
	viewer, editor := api.Token("viewer"), api.Token("editor", api.Embedded)
	viewer.Post(api.At("/jobs"), body).WantError(403, "FORBIDDEN")
	viewer.Post(api.At("/jobs"), object{"action": "disableClients", "ids": []string{"a"}, "dry_run": true}).WantError(403, "FORBIDDEN")
	wantDisabled(t, api, 0, 2)
	id := createJob(editor, api, body).ID
	wantJob(t, endOf(t, api, api.Embedded, id), "completed", 1, 1, 0)
	viewer.Get(api.At("/jobs/" + id)).Want(200)
	viewer.Get(api.At("/jobs")).Want(200)
	viewer.Delete(api.At("/jobs/"+id)).WantError(403, "FORBIDDEN")
	editor.Delete(api.At("/jobs/" + id)).Want(204)
	other := addBroker(t, api, object{"name": "other", "url": "mqtt://127.0.0.1:1"})
	api.Root.Get(api.BrokerAt(other, "/jobs/"+id)).WantError(404, "NOT_FOUND")
	api.Root.Delete(api.At("/jobs/01900000-0000-7000-8000-000000000000")).WantError(404, "NOT_FOUND")
	editor.Get(api.BrokerAt(other, "/jobs")).WantError(403, "FORBIDDEN")
	api.Root.Post(api.BrokerAt(other, "/jobs"), body).WantError(503, "BROKER_UNAVAILABLE")
}

// TestJobsOfARemoteBroker manages the embedded broker of another service, which can
// disconnect clients for it, but not end sessions.
func TestJobsOfARemoteBroker(t *testing.T) {
	t.Parallel()
	first, second := apitest.New(t, withAdminPassword), apitest.New(t)
	id := addBroker(t, second, object{"name": "first", "url": "mqtt://" + first.MQTT, "username": mqttAdmin, "password": mqttPassword})
	names := meters(first, 12)
	pump := join(t, first, 5, "pump", asAdmin)
	at := second.BrokerAt(id, "/jobs")
	second.Root.Post(at, object{"action": "forgetSession", "ids": []string{"pump"}}).WantError(405, "NOT_SUPPORTED")

	run := func(body object) handlers.JobRecord {
		t.Helper()
		var made handlers.JobRecord
		second.Root.Post(at, body).Want(200).Decode(&made)
		return endOf(t, second, id, made.ID)
	}
	wantJob(t, run(object{"action": "disconnect", "filter": object{"filterMode": "equals", "filterValue": "pump"}}), "completed", 1, 1, 0)
	pump.WantDisconnect(0x98)
	wantJob(t, run(object{"action": "disableClients", "filter": object{"filterMode": "regex", "filterValue": "^meter-"}}), "completed", 12, 12, 0)
	wantDisabled(t, first, 12, 12)
	done := run(object{"action": "deleteClients", "ids": append([]string{mqttAdmin}, names[:2]...)})
	wantJob(t, done, "completed", 3, 3, 1)
	if len(done.Failures) != 1 || done.Failures[0].Name != mqttAdmin || done.Failures[0].Code != "CONFLICT" {
		t.Errorf("failures %+v, want the client as which the service manages the broker", done.Failures)
	}
	wantDisabled(t, first, 10, 10)
}
