package console

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAudit_shows_names checks that rows of the audit log have texts and names where the log has
// operations and ids, which stay in the details.
func TestAudit_shows_names(t *testing.T) {
	t.Parallel()
	service := &calledService{responses: map[string]*Response{
		"listAudit": success(`{"events":[
			{"operation":"putMember","project_id":"p","object":"u-ada","outcome":"done","count":1},
			{"operation":"createJob","project_id":"p","broker_id":"b-1","object":"j-1","outcome":"done","count":1,"change":{"after":{"action":"forgetSession"}}},
			{"operation":"setTTL","project_id":"p","broker_id":"b-1","outcome":"done","count":1},
			{"operation":"deleteClient","project_id":"p","broker_id":"b-1","object":"pump-7","outcome":"failed","code":"NOT_FOUND","count":1},
			{"operation":"addRoleACL","project_id":"p","object":"pump","outcome":"done","count":1}]}`),
		"listMembers": success(`[{"userId":"u-ada","name":"Ada"}]`),
		"listBrokers": success(`[{"id":"b-1","name":"gate"}]`),
	}}
	text := newTestConsole(t, service.call).open("audit").Body.String()
	for _, want := range []string{
		`<span title="putMember">Add member or change role</span></th><td>Ada</td>`,
		`<span title="createJob">Start job</span></th><td>End sessions</td>`,
		`<span title="setTTL">Change the time to live of topics</span></th><td>gate</td>`,
		`<span title="deleteClient">Delete client</span></th><td>pump-7</td>`,
		`<code>addRoleACL</code></th><td>pump</td>`,
		`<option value="createClient">Create client</option>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	details := regexp.MustCompile(`(?s)<details>.*?</details>`)
	for _, id := range []string{"u-ada", "j-1", "NOT_FOUND"} {
		if strings.Contains(details.ReplaceAllString(text, ""), id) || !strings.Contains(text, id) {
			t.Errorf("%s is not in the details, or not only there:\n%s", id, text)
		}
	}
}

// TestJob_shows_no_code checks that the failures of a job are sentences.
func TestJob_shows_no_code(t *testing.T) {
	t.Parallel()
	service := &calledService{responses: map[string]*Response{"getJob": success(`{"action":"forgetSession","state":"completed","done":1,"failed":1,
		"failures":[{"name":"pump-6","code":"NOT_FOUND","message":"there is no such session"}]}`)}}
	text := newTestConsole(t, service.call).open("job").Body.String()
	if !strings.Contains(text, `<td title="NOT_FOUND">there is no such session</td>`) || strings.Contains(text, ">NOT_FOUND") {
		t.Errorf("the page shows the code:\n%s", text)
	}
}

// TestSubscribe_by_version checks that a client with MQTT 3.1.1 is not offered what only MQTT 5 has.
func TestSubscribe_by_version(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"v3.1.1": false, "v3.1": false, "v5.0": true, "": true} {
		service := &calledService{responses: map[string]*Response{"inspectClient": success(`{"protocolVersion":"` + version + `"}`)}}
		text := newTestConsole(t, service.call).open("session-subscribe").Body.String()
		for _, name := range []string{"noLocal", "retainAsPublished", "subscriptionIdentifier", "sendRetain"} {
			if got := strings.Contains(text, `name="`+name+`"`); got != want {
				t.Errorf("version %q: offers %s: %t", version, name, got)
			}
		}
		if !strings.Contains(text, `name="qos"`) {
			t.Errorf("version %q: no QoS", version)
		}
	}
}

// TestZone checks that charts, the ends of certificates and the scripts use the time zone of the
// user.
func TestZone(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	q.prefs.TimeZone = "Europe/Berlin"
	five := 5.0
	c := q.newChart(chartData{From: 1_769_860_800_000, Step: 60, Series: []chartSeries{{Values: []*float64{&five}}}}) // 12:00 UTC
	if c.Clocks[0].Text != "13:00 CET" || c.Clocks[0].At != "2026-01-31T12:00:00Z" || c.Rows[0].Clock.Text != "13:00 CET" {
		t.Errorf("the chart begins at %+v, its table at %+v", c.Clocks[0], c.Rows[0].Clock)
	}
	noon := time.UnixMilli(1_769_860_800_000)
	if got := q.validity(noon.Add(13*time.Hour), noon).Text; got != "expires in 13 hours, at 2026-02-01 02:00:00 CET" {
		t.Errorf("a certificate %s", got)
	}
	service := &calledService{responses: map[string]*Response{"getPreferences": success(`{"time_zone":"Europe/Berlin"}`)}}
	for zone, call := range map[string]Call{"Europe/Berlin": service.call, "UTC": emptyService} {
		w := newTestConsole(t, call).open("account")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), ` data-zone="`+zone+`"`) {
			t.Errorf("%s: the scripts have another zone", zone)
		}
	}
}
