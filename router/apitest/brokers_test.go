package apitest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// waitFor waits until ok returns true, and fails with what.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	suite.WaitFor(t, what, ok)
}

func addBroker(t *testing.T, api *apitest.API, body object) string {
	t.Helper()
	var id handlers.Identifier
	api.Root.Post("/api/projects/"+api.Project+"/brokers", body).Want(200).Decode(&id)
	return id.ID
}

func brokerRecord(api *apitest.API, id string) handlers.BrokerRecord {
	var record handlers.BrokerRecord
	api.Root.Get(api.BrokerAt(id, "")).Want(200).Decode(&record)
	return record
}

// TestSameSessionOnMosquitto manages a real Mosquitto as the embedded broker.
func TestSameSessionOnMosquitto(t *testing.T) {
	t.Parallel()
	api, server := apitest.New(t), brokertest.Mosquitto(t)
	id := addBroker(t, api, object{"name": "plant", "url": server.URL, "username": server.AdminUsername, "password": string(server.AdminPassword)})
	waitFor(t, "the connection", func() bool { return brokerRecord(api, id).Status.Connected })

	viewer := api.Token("viewer", id)
	at := func(path string) string { return api.BrokerAt(id, path) }
	viewer.Post(at("/roles"), object{"rolename": "sensor"}).Want(204)
	viewer.Put(at("/roles"), object{"rolename": "sensor", "acls": []object{
		{"acltype": "publishClientSend", "topic": "plant/#", "priority": 0, "allow": true}}}).Want(204)
	viewer.Post(at("/groups"), object{"groupname": "pumps", "roles": []object{{"rolename": "sensor"}}}).Want(204)
	viewer.Post(at("/clients"), object{"username": "pump-7", "password": "secret", "groups": []object{{"groupname": "pumps"}}}).Want(204)

	address := strings.TrimPrefix(server.URL, "mqtt://")
	pump := mqtttest.Join(t, address, "pump-7", "secret")
	viewer.Put(at("/clients/enable"), object{"username": "pump-7", "enable": false}).Want(204)
	pump.WantLost(t)

	want := `[{"username":"pump-7","disabled":true,"roles":[],"groups":[{"groupname":"pumps"}],"connections":[]}]`
	if got := strings.TrimSpace(string(viewer.Get(at("/clients?username=pump-7")).Want(200).Body)); got != want {
		t.Errorf("record: got %s, want %s", got, want)
	}
	viewer.Get(at("/client-inspect")).WantError(405, "NOT_SUPPORTED")
	viewer.Get(at("/license")).WantError(405, "NOT_SUPPORTED")
	viewer.Get(at("/clients?username=nobody")).WantError(404, "NOT_FOUND")
	viewer.Post(at("/clients"), object{"username": "pump-7"}).WantError(400, "ALREADY_EXISTS")
	api.Root.Delete(at("/clients?username="+server.AdminUsername)).WantError(400, "CONFLICT")
	waitFor(t, "$SYS topics", func() bool {
		var info handlers.BrokerInfo
		viewer.Get(at("/info")).Want(200).Decode(&info)
		return info.IsConnected && strings.Contains(info.SysTopics.Topics["$SYS/broker/version"], "mosquitto")
	})
	viewer.Get(api.At("/clients")).WantError(403, "FORBIDDEN")
}

func TestUnreachableBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	url := "mqtt://" + brokertest.FreePort(t, "127.0.0.1")
	id := addBroker(t, api, object{"name": "gone", "url": url, "username": "u", "password": "hush"})
	e := api.Root.Get(api.BrokerAt(id, "/clients")).WantError(503, "BROKER_UNAVAILABLE").Error()
	if !strings.Contains(e.Message, "refuses") {
		t.Errorf("the cause is not named: %q", e.Message)
	}
	waitFor(t, "the cause in the record", func() bool { return strings.Contains(brokerRecord(api, id).Status.Error, "refuses") })
	var info handlers.BrokerInfo
	api.Root.Get(api.BrokerAt(id, "/info")).Want(200).Decode(&info)
	if info.IsConnected {
		t.Error("info says connected")
	}
	var trial handlers.BrokerTrial
	api.Root.Post("/api/projects/"+api.Project+"/brokers/test", object{"name": "x", "url": url}).Want(200).Decode(&trial)
	if trial.Connected || !strings.Contains(trial.Error, "refuses") || trial.Cause != broker.CauseRefused || len(trial.Steps) != 3 ||
		trial.Steps[0] != (broker.ConnectStep{Step: "port", State: "failed"}) || len(trial.Remedies) == 0 || trial.Certificates == nil {
		t.Errorf("trial: got %+v", trial)
	}
}

// TestPinnedBroker tests Mosquittos with self-signed certificates, of which some are out of date, pins them and
// connects.
func TestPinnedBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	here := []string{"127.0.0.1"}
	for name, c := range map[string]struct {
		certificate brokertest.CertOptions
		cause       broker.ConnectCause
	}{
		"self-signed":   {brokertest.CertOptions{Subject: "broker", Names: here}, broker.CauseUntrusted},
		"expired":       {brokertest.CertOptions{Subject: "broker", Names: here, Expired: true}, broker.CauseExpired},
		"not valid yet": {brokertest.CertOptions{Subject: "broker", Names: here, NotYet: true}, broker.CauseExpired},
	} {
		t.Run(name, func(t *testing.T) {
			server := brokertest.Mosquitto(t, brokertest.WithCertificate(brokertest.SelfSigned(t, c.certificate)))
			body := object{"name": name, "url": server.TLSURL, "username": server.AdminUsername, "password": string(server.AdminPassword)}
			try := func() (trial handlers.BrokerTrial) {
				api.Root.Post("/api/projects/"+api.Project+"/brokers/test", body).Want(200).Decode(&trial)
				return trial
			}
			trial := try()
			if trial.Connected || trial.Cause != c.cause || len(trial.Certificates) != 1 {
				t.Fatalf("trial: got %+v", trial)
			}
			body["server_fingerprint"] = trial.Certificates[0].Fingerprint
			if trial = try(); !trial.Connected || trial.Cause != "" || len(trial.Certificates[0].Problems) > 0 {
				t.Errorf("trial with the pin: got %+v", trial)
			}
			id := addBroker(t, api, body)
			waitFor(t, "the pinned broker", func() bool { return brokerRecord(api, id).Status.Connected })
			body["server_fingerprint"] = fingerprint
			body["name"] = name + ", another"
			id = addBroker(t, api, body)
			waitFor(t, "the refusal", func() bool { return strings.Contains(brokerRecord(api, id).Status.Error, "another certificate") })
		})
	}
}

func TestBrokerConnection(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addBroker(t, api, object{"name": "b", "url": "mqtt://127.0.0.1:1", "description": "Hall 3", "username": "u", "password": "hush-hush"})
	record := api.Root.Get(api.BrokerAt(id, "")).Want(200)
	if strings.Contains(string(record.Body), "hush-hush") {
		t.Error("the record shows the password")
	}
	if r := brokerRecord(api, id); !r.HasPassword || r.HasClientKey || !r.VerifyCACert || r.Type != "self-hosted" {
		t.Errorf("record: got %+v", r)
	}
	api.Root.Put(api.BrokerAt(id, ""), object{"password": nil, "description": nil, "name": "c", "clustermode": "hp"}).Want(204)
	if r := brokerRecord(api, id); r.HasPassword || r.Description != "" || r.Name != "c" || *r.Username != "u" || *r.ClusterMode != "hp" {
		t.Errorf("after the update: got %+v", r)
	}
	api.Root.Put(api.At(""), object{"name": "mine"}).WantError(400, "CONFLICT")
	api.Root.Delete(api.At("")).WantError(400, "CONFLICT")
	api.Root.Delete(api.BrokerAt(id, "")).Want(204)
	api.Root.Get(api.BrokerAt(id, "")).WantError(404, "NOT_FOUND")
	for name, body := range map[string]object{
		"no name":             {"url": "mqtt://h"},
		"no url":              {"name": "n"},
		"a strange scheme":    {"name": "n", "url": "http://h"},
		"no host":             {"name": "n", "url": "mqtt://"},
		"credentials in url":  {"name": "n", "url": "mqtt://u:p@h"},
		"no certificate":      {"name": "n", "url": "mqtts://h", "ca_cert": "nonsense"},
		"no fingerprint":      {"name": "n", "url": "mqtts://h", "server_fingerprint": "5E:C6"},
		"a pin without TLS":   {"name": "n", "url": "mqtt://h", "server_fingerprint": fingerprint},
		"an empty username":   {"name": "n", "url": "mqtt://h", "username": ""},
		"a file elsewhere":    {"name": "n", "url": "mqtts://h", "ca_cert_file": "/etc/ssl/certs/ca.pem"},
		"a file further up":   {"name": "n", "url": "mqtts://h", "client_key_file": "../secret.key"},
		"an unknown clusters": {"name": "n", "url": "mqtt://h", "clustermode": "ring"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			api.Root.Post("/api/projects/"+api.Project+"/brokers", body).WantError(400, "INVALID_REQUEST")
		})
	}
}

// TestSettingsVariants reads one record of each variant, as specified.
func TestSettingsVariants(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	selfHosted := addBroker(t, api, object{"name": "s", "url": "mqtt://127.0.0.1:1"})
	cloud := storeCloud(t, api)
	var settings struct{ Services []map[string]json.RawMessage }
	api.Root.Get("/api/projects/" + api.Project + "/settings").Want(200).Decode(&settings)
	want := map[string]string{
		api.Embedded: "created_at ha id issued_to name period_start product_id project_id type updated_at",
		selfHosted:   "created_at ha id name project_id type updated_at url verify_ca_cert",
		cloud: "created_at ha id issued_to location name options period_start product_id project_id state " +
			"subdomain target_state type updated_at url verify_ca_cert zone_name",
	}
	for _, service := range settings.Services {
		var id string
		if err := json.Unmarshal(service["id"], &id); err != nil {
			t.Fatal(err)
		}
		if got := keysOf(service); got != want[id] {
			t.Errorf("members of %s: got %s, want %s", service["type"], got, want[id])
		}
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestEmbeddedInfoLicenseListeners(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var info handlers.BrokerInfo
	api.Root.Get(api.At("/info")).Want(200).Decode(&info)
	if !info.IsConnected || info.URL != "mqtt://"+api.MQTT || info.SysTopics.Topics["$SYS/broker/version"] == "" {
		t.Errorf("info: got %+v", info)
	}
	api.Root.Get(api.At("/license")).Want(200)
	want := fmt.Sprintf(`"port":%s,"bindAddress":"127.0.0.1","protocol":"mqtt","tls":false,"requireCertificate":false,"certs":[]`,
		api.MQTT[strings.LastIndex(api.MQTT, ":")+1:])
	if got := string(api.Root.Get(api.At("/listeners")).Want(200).Body); !strings.Contains(got, want) {
		t.Errorf("listeners: got %s, want %s in it", got, want)
	}
}
