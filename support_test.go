package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

// Secrets of a test, and a name. Each is planted in another place.
const (
	sentinel     = "qq/Secret+That<Nobody>Is&Shown"
	sentinelSeed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY" // an example key
	clientName   = "pump-seven"
)

// forms are the forms in which a secret must not appear.
func forms(key string) []string {
	quoted, _ := json.Marshal(sentinel)
	return []string{sentinel, string(quoted[1 : len(quoted)-1]), url.QueryEscape(sentinel), url.PathEscape(sentinel),
		base64.StdEncoding.EncodeToString([]byte(sentinel)), sentinel[3:20], sentinelSeed, strings.Split(key, "\n")[1][:40], "drowssap-client", "drowssap-user", "payload-seven"}
}

// planted starts a service in which a secret is in every place that takes one, with a log that has
// everything. Its bridges and connections do not work.
func planted(t *testing.T, u *terminal, cert, key string) (api *apitest.API, dir, log string) {
	t.Helper()
	dir, log = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "signalbox.log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	t.Cleanup(func() { file.Close() }) //nolint:errcheck // a test's
	_, err = file.WriteString("time=" + time.Now().Add(-25*time.Hour).UTC().Format(time.RFC3339Nano) + " level=INFO msg=old-line\n")
	must(t, err)
	api = apitest.NewLogged(t, slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug})), apitest.In(dir), func(c *appliance.Config) {
		c.Broker.AdminPassword, c.HTTP.MetricsToken = sentinel, sentinel
	})
	plantBridges(api, cert, key)
	plantConnections(t, api, cert, key)
	type object = map[string]any
	api.Root.Post(api.At("/roles"), object{"rolename": "all", "acls": []object{{"acltype": "publishClientSend", "topic": "#", "priority": 0, "allow": true}}}).Want(204)
	api.Root.Post(api.At("/clients"), object{"username": clientName, "password": "drowssap-client", "roles": []object{{"rolename": "all"}}}).Want(204)
	api.Root.Post("/api/users", object{"email": "user@plant.example", "password": "drowssap-user"}).Want(200)
	mqtttest.Join(t, api.MQTT, clientName, "drowssap-client")
	api.Root.Post(api.At("/messages"), object{"topic": "in/1", "payload": "payload-seven", "retain": true})
	_, err = file.WriteString("time=" + time.Now().UTC().Format(time.RFC3339Nano) + ` level=WARN msg="the broker sent ` + strings.Join(forms(key)[:5], " ") + ` password=drowssap-client" key=` +
		"\"" + strings.ReplaceAll(key, "\n", `\n`) + "\" by " + clientName + ": clientid=other-name\n")
	must(t, err)
	return api, dir, log
}

// plantBridges configures a bridge of each kind with secrets.
func plantBridges(api *apitest.API, cert, key string) {
	type object = map[string]any
	login := object{"username": "user", "password": sentinel}
	for kind, target := range map[string]object{
		"http-bridge":     {"url": "http://127.0.0.1:1", "credentials": login, "secretHeaders": object{"X-Key": sentinel}, "hmac": object{"secret": sentinel}},
		"mqtt-bridge":     {"url": "mqtts://127.0.0.1:1", "credentials": login, "tls": object{"enabled": true, "clientCertificate": cert, "clientKey": key}},
		"sql-bridge":      {"driver": "postgresql", "hostname": "127.0.0.1", "port": 1, "database": "d", "credentials": login},
		"influxdb-bridge": {"url": "http://127.0.0.1:1", "version": 2, "organization": "o", "bucket": "b", "token": sentinel},
		"kafka-bridge":    {"brokers": []string{"127.0.0.1:1"}, "saslMechanism": "plain", "credentials": login},
		"nats-bridge":     {"servers": []string{"nats://127.0.0.1:1"}, "nkeySeed": sentinelSeed},
	} {
		m := object{"name": "m", "mqttTopics": []string{"in/#"}}
		if kind == "sql-bridge" || kind == "influxdb-bridge" {
			m["target"] = "t"
		}
		api.Root.Put(api.At("/bridges/"+kind+"/config"), object{"connections": []object{{"name": "c", "connection": target, "topicMappings": []object{m}}}}).Want(204)
	}
}

// plantConnections creates connections with secrets, each of which fails at another step.
func plantConnections(t *testing.T, api *apitest.API, cert, key string) {
	t.Helper()
	echo := suite.Listen(t, func(c net.Conn) { io.Copy(c, c) }) //nolint:errcheck // until the peer closes
	for name, at := range map[string]string{"refused": "mqtt://127.0.0.1:1", "no name": "mqtt://broker.invalid", "no MQTT": "mqtt://" + echo, "no TLS": "mqtts://" + api.MQTT,
		"no log-in": "mqtt://" + api.MQTT, "no WebSocket": "ws://" + api.MQTT + "/mqtt"} {
		body := map[string]any{"name": name, "url": at, "username": "user", "password": sentinel}
		if name == "no TLS" {
			body["client_cert"], body["client_key"] = cert, key
		}
		api.Root.Post("/api/projects/"+api.Project+"/brokers", body).Want(200)
	}
}

// unpack returns the files of an archive.
func unpack(t *testing.T, path string) (files map[string]string) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	f, err := os.Open(path)
	must(t, err)
	defer f.Close() //nolint:errcheck // it was only read
	packed, err := gzip.NewReader(f)
	must(t, err)
	files = map[string]string{}
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		text, err := io.ReadAll(archive)
		must(t, err)
		files[filepath.Base(header.Name)] = string(text)
	}
}

// TestDoctorOfARunningService examines a running service with connections that fail at each step,
// and writes bundles of it, which have no secret.
func TestDoctorOfARunningService(t *testing.T) {
	t.Parallel()
	u := &terminal{t: t, dir: t.TempDir()}
	cert, key := certificate(t, time.Now().Add(-time.Hour), soon(90))
	api, dir, log := planted(t, u, cert, key)
	config := u.file("signalbox.yaml", anyPort+"admin: {password: '"+sentinel+"'}\nlog: {file: "+log+"}\naudit: {sinks: {webhook: 'https://127.0.0.1:1/"+url.PathEscape(sentinel)+"', webhook_token: '"+sentinel+"'}}\n")
	text, err := os.ReadFile(config)
	must(t, err)
	e := u.examineIn(dir, string(text))
	if e.wants(t, found{Level: "warning", Check: "service", Text: "runs as version test"}, "connections"); !e.Running {
		t.Error("it is not known that the service runs")
	}
	for name, step := range map[string]string{"refused": "port failed", "no name": "name failed", "no MQTT": "login failed", "no TLS": "tls failed", "no log-in": "login failed", "no WebSocket": "websocket failed"} {
		e.wants(t, found{Level: "error", Check: "connections", Object: name, Text: step}, "service")
	}
	e.wants(t, found{Level: "ok", Check: "ports", Object: "broker.listen", Text: "any port"}, "connections", "service")

	args := []string{"support", "bundle", "--config", config, "--data_dir", dir, "--offline", filepath.Join(u.dir, "named.tar.gz")}
	got := u.run(args...)
	if got.code != 0 || !strings.Contains(got.errors, "goroutines.txt") {
		t.Fatalf("%+v", got)
	}
	named := unpack(t, filepath.Join(u.dir, "named.tar.gz"))
	for name, part := range map[string]string{"doctor.txt": "runs as version test", "doctor.json": `"findings"`, "configuration.yaml": "webhook_token: '***'", "log.txt": "by " + clientName + ": clientid=other-name", "metrics.txt": "signalbox_info",
		"goroutines.txt": "(...)", "versions.txt": "modernc.org/sqlite", "files.txt": "signalbox.db", "service.json": `"pid"`} {
		if !strings.Contains(named[name], part) {
			t.Errorf("%s has no %q: %.3000s", name, part, named[name])
		}
	}
	if strings.Contains(named["log.txt"], "old-line") {
		t.Error("the log has lines of more than a day ago")
	}
	if got := u.run(args...); got.code != 1 || !strings.Contains(got.errors, "exists") {
		t.Errorf("a bundle was replaced: %+v", got)
	}
	u.done("support", "bundle", "--config", config, "--data_dir", dir, "--offline", "--hide-names", "--yes", filepath.Join(u.dir, "unnamed.tar.gz"))
	wantHidden(t, named, unpack(t, filepath.Join(u.dir, "unnamed.tar.gz")), key)

	download := func(query string) map[string]string {
		path := filepath.Join(t.TempDir(), "bundle.tar.gz")
		must(t, os.WriteFile(path, api.Root.Get("/api/system/support-bundle?offline=true"+query).Want(200).Body, 0o600))
		return unpack(t, path)
	}
	wantHidden(t, download(""), download("&hide_names=true"), key)
}

// wantHidden requires bundles without secrets, of which one is without names of clients.
func wantHidden(t *testing.T, named, unnamed map[string]string, key string) {
	t.Helper()
	for _, files := range []map[string]string{named, unnamed} {
		for name, text := range files {
			for _, form := range forms(key) {
				if i := strings.Index(text, form); i >= 0 {
					t.Errorf("%s has a secret: …%q…", name, text[max(i-200, 0):min(i+100, len(text))])
				}
			}
		}
	}
	for name, text := range unnamed {
		for _, client := range []string{clientName, "other-name"} {
			if strings.Contains(text, client) {
				t.Errorf("%s names the client %s", name, client)
			}
		}
	}
}
