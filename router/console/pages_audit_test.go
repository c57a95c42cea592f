package console

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/dynsec"
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
			{"operation":"addRoleACL","project_id":"p","object":"pump","outcome":"done","count":1},
			{"operation":"ofALaterVersion","project_id":"p","object":"pump","outcome":"done","count":1}]}`),
		"listMembers": success(`[{"userId":"u-ada","name":"Ada"}]`),
		"listBrokers": success(`[{"id":"b-1","name":"gate"}]`),
	}}
	text := newTestConsole(t, service.call).open("audit").Body.String()
	for _, want := range []string{
		`<span title="putMember">Add member or change role</span></th><td>Ada</td>`,
		`<span title="createJob">Start job</span></th><td>End sessions</td>`,
		`<span title="setTTL">Change the time to live of topics</span></th><td>gate</td>`,
		`<span title="deleteClient">Delete client</span> <span class="bad"><svg class="icon"`,
		`</svg></span></th><td>pump-7</td>`,
		"<pre><code>{\n  &#34;after&#34;: {\n",
		`<span title="addRoleACL">Add rule to role</span></th><td>pump</td>`,
		`<code>ofALaterVersion</code></th><td>pump</td>`,
		`<option value="setTtl">Change the time to live of topics</option>`,
		`<span class="state bad"><svg class="icon"`,
		`<span class="state good">Done`,
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

// TestAudit_has_texts checks that the log has words for every operation of the API and every
// command of the control topics that it may record.
func TestAudit_has_texts(t *testing.T) {
	t.Parallel()
	names := append(changingCommands(t), changingOperations(t)...)
	if len(names) < 100 || !slices.Contains(names, "addRoleACL") || !slices.Contains(names, "setTtl") || !slices.Contains(names, "createBackup") {
		t.Fatalf("the operations that are recorded are %q", names)
	}
	var events []map[string]any
	for _, name := range names {
		events = append(events, map[string]any{"operation": name, "outcome": "done", "count": 1})
	}
	list, err := json.Marshal(map[string]any{"events": events})
	if err != nil {
		t.Fatal(err)
	}
	service := &calledService{responses: map[string]*Response{"listAudit": success(string(list))}}
	text := newTestConsole(t, service.call).open("audit").Body.String()
	for _, name := range names {
		if !strings.Contains(text, `<th scope="row"><span title="`+name+`">`) || !strings.Contains(text, `<option value="`+name+`">`) {
			t.Errorf("the audit log has no words for %s, or its filter does not suggest it", name)
		}
	}
}

// changingCommands returns the commands of the control topics that change something: of the
// texts in the source of these topics, those that are recorded.
func changingCommands(t *testing.T) (names []string) {
	t.Helper()
	for topic, files := range map[string]string{dynsec.Topic: "../../broker/dynsec/*.go", control.StreamTopic: "../../broker/control/*.go"} {
		paths, err := filepath.Glob(files)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", files, len(paths), err)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`"([a-z][A-Za-z]+)"`).FindAllStringSubmatch(string(source), -1) {
				recorded, _ := control.Changes(topic, []byte(`{"commands":[{"command":"`+m[1]+`"}]}`))
				for _, c := range recorded {
					names = append(names, c.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// changingOperations returns the operations of the API that are not requested with GET.
func changingOperations(t *testing.T) (names []string) {
	t.Helper()
	source, err := os.ReadFile("../testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(source, &document); err != nil {
		t.Fatal(err)
	}
	for _, path := range document.Paths {
		for method, text := range path {
			var o struct{ OperationID string }
			if json.Unmarshal(text, &o) == nil && o.OperationID != "" && method != "get" {
				names = append(names, o.OperationID)
			}
		}
	}
	return names
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

// TestAudit_is_downloaded checks that the page of the service leads to a file with the events that its
// filter selects, and that of a project does not.
func TestAudit_is_downloaded(t *testing.T) {
	t.Parallel()
	events := success(`{"events":[{"operation":"login","outcome":"done","count":1}],"next":7}`)
	c := newTestConsole(t, (&calledService{responses: map[string]*Response{"listAudit": events, "listProjectAudit": events}}).call)
	const query = "&operation=login&since=2026-01-31T12:00&before=9"
	const link = `href="./../api/audit/export?format=csv&amp;operation=login&amp;since=2026-01-31T12%3A00%3A00Z" download="audit.csv"`
	if text := c.at("audit", query).Body.String(); !strings.Contains(text, link) {
		t.Errorf("no %s in:\n%s", link, text)
	}
	if text := c.at("project-audit", query).Body.String(); !strings.Contains(text, `<span title="login">`) || strings.Contains(text, "download") {
		t.Errorf("the page of a project:\n%s", text)
	}
}
