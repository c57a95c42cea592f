package apitest_test

import (
	"context"
	"net/url"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// german sets the language of a user's console.
func german(caller *apitest.Caller) { caller.Put(preferencesPath, object{"language": "de"}).Want(204) }

// forgetfulBroker is a real broker that does not confirm that a client was created.
type forgetfulBroker struct{ broker.Broker }

func (forgetfulBroker) CreateClient(context.Context, broker.ClientSpec) error {
	return &broker.Error{Kind: broker.Unconfirmed, Op: "createClient", Msg: "the change was not confirmed in time; it may have happened"}
}

// TestConsoleErrorsInGerman checks that a user whose language is German reads why an operation failed
// in German: what the code stands for always, and the sentence where it has a text; otherwise as the
// API has it, marked as English.
func TestConsoleErrorsInGerman(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	german(api.Root)
	unreachable := addBroker(t, api, object{"name": "gone", "url": "mqtt://127.0.0.1:1"})
	waitFor(t, "the failure", func() bool { return brokerRecord(api, unreachable).Status.Error != "" })
	forgetful := addBroker(t, api, object{"name": "forgetful", "url": "mqtt://127.0.0.1:1"})
	replaceBroker(api, forgetful, forgetfulBroker{api.Handlers.Brokers.Live(api.Embedded, 0)})
	api.Root.Post(api.At("/clients"), object{"username": "pump"}).Want(204)
	var me struct{ ID string }
	api.Root.Get("/api/auth/me").Want(200).Decode(&me)

	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	at := func(id, page string) string { return c.Project("/b/" + id + page) }
	newClient := formOf([]string{"do", "create", "username", "pump"})
	for name, x := range map[string]struct {
		page   string
		form   url.Values
		status int
		texts  []string
	}{
		"wrong field":    {"/users/new", formOf([]string{"email", "nobody", "password", apitest.RootPassword, "repeated", apitest.RootPassword}), 400, []string{"Diese Felder sind ungültig", `error"><svg`, "muss eine E-Mail-Adresse sein</span>", "muss eine E-Mail-Adresse sein</li>"}},
		"exists":         {c.at("clients/new"), newClient, 400, []string{"Existiert schon · der Client existiert schon", "<code>ALREADY_EXISTS</code>"}},
		"conflict":       {c.Project("/members/remove?user=" + me.ID + "&name=root"), url.Values{}, 400, []string{"Der gegenwärtige Zustand lässt das nicht zu · der Eigentümer eines Projekts bleibt dessen Admin"}},
		"not found":      {at("999", "/clients/new"), newClient, 404, []string{"Gibt es nicht · das Projekt hat keinen Broker mit dieser ID"}},
		"not connected":  {at(unreachable, "/clients/new"), newClient, 503, []string{"Der Broker ist nicht erreichbar: Ein neuer Versuch ist gefahrlos · 127.0.0.1:1 lehnt Verbindungen ab: Prüfen Sie"}},
		"timeout":        {at(forgetful, "/clients/new"), newClient, 503, []string{"Prüfen Sie vor einem neuen Versuch, ob es geschehen ist · die Änderung wurde nicht rechtzeitig bestätigt"}},
		"not translated": {c.Project("/delete"), formOf([]string{"confirm", "default"}), 400, []string{`lässt das nicht zu · <span lang="en">the project holds the embedded broker; switch that off first`}},
		"page not found": {at("999", "/overview"), nil, 404, []string{"Gibt es nicht · das Projekt hat keinen Broker mit dieser ID"}},
		"page of a list": {c.Project("/brokers"), nil, 200, []string{"127.0.0.1:1 lehnt Verbindungen ab: Prüfen Sie"}},
		"part of a page": {at(unreachable, "/overview"), nil, 200, []string{"127.0.0.1:1 lehnt Verbindungen ab: Prüfen Sie"}},
		"form of a bridge": {at(api.Embedded, "/bridges/http-bridge/config"), formOf([]string{"do", "edit", "step", "add:/connections", "mode", "fields", "document", `{"version":"v1","connections":[]}`}), 200,
			[]string{"Werden mit jeder Anfrage gesendet", ">Zertifikat des Servers prüfen<"}},
	} {
		t.Run(name, func(t *testing.T) {
			if x.form == nil {
				c.Want(c.Get(x.page), x.status, x.texts...)
			} else {
				c.Want(c.Post(x.page, x.form), x.status, x.texts...)
			}
		})
	}
}

// TestConsoleBridgesInGerman does what a configuration of a bridge can get wrong: a user whose
// language is German reads each reason in German, and why the target cannot be reached.
func TestConsoleBridgesInGerman(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	german(api.Root)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	connection := func(connection, mapping string) string {
		return `{"version":"v1","connections":[{"name":"n","connection":` + connection + `,"topicMappings":[{"name":"m","mqttTopics":["a/#"]` + mapping + `}]}]}`
	}
	post := func(bridge, step, document string) *apitest.Page {
		return c.Post(c.at("bridges/"+bridge+"/config"), formOf([]string{"do", "edit", "mode", "json", "step", step, "config", document}))
	}
	for _, x := range []struct{ bridge, document, want string }{
		{"http-bridge", connection(`{"url":"ftp://127.0.0.1"}`, ""), "muss mit http:// oder https:// beginnen"},
		{"http-bridge", connection(`{"url":"http://u:p@127.0.0.1"}`, ""), "darf keine Zugangsdaten enthalten: Sie haben eigene Felder"},
		{"http-bridge", connection(`{"url":"http://127.0.0.1","headers":{"Authorization":"x"}}`, ""), "ist ein Geheimnis: Es gehört in secretHeaders"},
		{"http-bridge", connection(`{"url":"http://127.0.0.1","token":"********"}`, ""), "ist maskiert, aber für eine Verbindung dieses Namens ist dort kein Geheimnis gespeichert"},
		{"http-bridge", connection(`{"url":"https://127.0.0.1","tls":{"caCertificate":"x"}}`, ""), "enthält kein Zertifikat in PEM"},
		{"http-bridge", connection(`{"url":7}`, ""), "muss ein Text sein, keine Zahl"},
		{"http-bridge", connection(`{"url":"http://127.0.0.1"}`, `,"schemaMapping":"s"`), "es gibt keine Schema-Zuordnung dieses Namens"},
		{"kafka-bridge", connection(`{"brokers":["kafka"]}`, `,"target":"t"`), "muss Host und Port sein, wie kafka:9092"},
		{"nats-bridge", connection(`{"servers":["nats:4222"]}`, `,"target":"t"`), "muss eine Adresse wie nats://host:4222 oder tls://host:4222 sein"},
		{"influxdb-bridge", connection(`{"url":"http://127.0.0.1"}`, `,"target":"t"`), "ist für Version 1 von InfluxDB erforderlich"},
		{"mqtt-bridge", connection(`{"url":"mqtt://127.0.0.1"}`, `,"localPrefix":"+/"`), "darf kein &#43; oder # enthalten"},
	} {
		c.Want(post(x.bridge, "save", x.document), 400, "Diese Felder sind ungültig", "body.connections[0]", x.want)
	}
	c.Want(post("http-bridge", "test", connection(`{"url":"http://127.0.0.1:9"}`, "")), 200,
		"n: 127.0.0.1:9 ist nicht erreichbar: Verbindungen werden abgelehnt: Prüfen Sie die Adresse, und ob der Dienst läuft")
}

// TestConsoleRefusalsInGerman is the same for what the role does not permit, and for what a broker
// does not have.
func TestConsoleRefusalsInGerman(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, func(c *appliance.Config) { c.Auth.ProjectCreators = []string{"root"} })
	mosquitto := addMosquitto(t, api)
	v := api.Member("viewer")
	german(api.LogIn("viewer@example.com", apitest.RootPassword))
	v.Want(v.Post("/projects/new", formOf([]string{"name", "mine"})), 403, "Nicht erlaubt · Sie dürfen hier keine Projekte anlegen; wenden Sie sich an", "<code>FORBIDDEN</code>")
	v.Want(v.Post(v.Broker("/clients/new"), formOf([]string{"do", "create", "username", "x"})), 403, "Ihre Rolle im Projekt erlaubt das nicht.")
	v.Want(v.Get(v.Project("/b/"+mosquitto+"/sessions")), 200, "<p>Dieser Broker hat diese Funktion nicht</p><p>der Broker antwortet nicht auf $CONTROL/cedalo/inspect/v1: Mosquitto in der Ausgabe von Cedalo und signalbox bieten es an</p>")
}
