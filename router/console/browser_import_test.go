package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// importPage is the page that imports and exports the access control of a broker.
type importPage struct {
	*browsertest.Page
	t *testing.T
}

// check chooses a file and waits until the page shows the numbers of its clients and of those
// of the broker.
func (p *importPage) check(file, inFile, inBroker string) {
	p.t.Helper()
	p.Choose("#f-check-file", file)
	p.Click("form[enctype] .primary")
	p.WaitFor("document.readyState === 'complete' && document.activeElement.id === 'checked'")
	if got, want := strings.Fields(p.Text("[aria-labelledby=checked] tbody tr")), []string{"Clients", inFile, inBroker}; strings.Join(got, " ") != strings.Join(want, " ") {
		p.t.Errorf("the check shows %q, want %q", got, want)
	}
}

// confirm imports the checked file and waits for the report.
func (p *importPage) confirm(mode, report string) {
	p.t.Helper()
	p.Click(`form:has([value="` + mode + `"]) button`)
	p.WaitFor("document.readyState === 'complete' && document.querySelector('#report')")
	if got := p.Text("[aria-labelledby=report] [role=status]"); got != report {
		p.t.Errorf("the import reports %q, want %q", got, report)
	}
}

// withClient returns a copy of an exported file with one more client, which has the password and
// the roles of another one.
func withClient(t *testing.T, exported, username, like string) (path string) {
	t.Helper()
	text, err := os.ReadFile(exported)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	clients, _ := document["clients"].([]any)
	for _, c := range clients {
		if client, _ := c.(object); client["username"] == like {
			added := object{}
			for name, value := range client {
				added[name] = value
			}
			added["username"] = username
			clients = append(clients, added)
			break
		}
	}
	document["clients"] = clients
	text, err = json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "changed.json"), text)
}

// TestImportFlow exports the access control of the embedded broker, adds a client to the file,
// imports it, restores the export, and moves to the access control of a Mosquitto.
func TestImportFlow(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	for mode, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t)
			api.Root.Post(api.At("/clients"), object{"username": "pump-7", "password": secret}).Want(204)
			s := newSession(t, api.URL)
			at := func(broker string) string { return api.URL + "/ui/p/" + api.Project + "/b/" + broker + "/import" }
			p := &importPage{browsertest.Open(t, at(api.Embedded), append(options, browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value))...), t}
			connects := func(username, password string, want bool) {
				t.Helper()
				if got := mqtttest.Accepts(t, api.MQTT, username, password); got != want {
					t.Errorf("%s can connect: %t, want %t", username, got, want)
				}
			}
			exported := p.Download("main a[download]", "dynamic-security.json")
			p.Expect("400 Bad Request")
			p.Choose("#f-check-file", write(t, filepath.Join(t.TempDir(), "damaged.json"), []byte("{\n\n}}")))
			p.Click("form[enctype] .primary")
			p.WaitFor("document.querySelector('#f-check-file[aria-invalid=true] ~ .field-error')?.innerText.includes('Line 3')")

			p.check(withClient(t, exported, "pump-9", "pump-7"), "3", "2")
			connects("pump-9", secret, false)
			p.confirm("merge", "Clients: 3, groups: 0, roles: 1.")
			connects("pump-9", secret, true)

			p.check(exported, "2", "3")
			p.confirm("replace", "Clients: 2, groups: 0, roles: 1.")
			connects("pump-9", secret, false)
			connects("pump-7", secret, true)

			p.check(server.DynsecPath, "1", "2")
			p.confirm("replace", "Clients: 1, groups: 0, roles: 1.")
			connects("pump-7", secret, false)
			connects(server.AdminUsername, string(server.AdminPassword), true)

			p.Go(at(addMosquitto(t, api, server)))
			if text := p.Text("main"); p.Count("#f-check-file") > 0 || !strings.Contains(text, "use its dynamic-security.json") {
				t.Errorf("the access control of a Mosquitto: %s", text)
			}
		})
	}
}
