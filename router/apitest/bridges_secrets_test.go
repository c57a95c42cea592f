package apitest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// The secrets of connections of all kinds. Only a part of the key is searched for.
const (
	secretText = "qq/Secret+That<Nobody>Is&Shown"
	secretSeed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY" // an example key
)

// newCertificate returns a certificate and its key.
func newCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)
}

// newEchoServer returns the address of a server that sends back its input.
func newEchoServer(t *testing.T) string {
	t.Helper()
	return suite.Listen(t, func(c net.Conn) {
		c.SetDeadline(time.Now().Add(200 * time.Millisecond)) //nolint:errcheck // it is open
		io.Copy(c, c)                                         //nolint:errcheck // until the peer closes
	})
}

// newRefusingServer returns the address of a server that refuses every request and returns its
// content.
func newRefusingServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/ping") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		text, _ := httputil.DumpRequest(r, false)
		w.WriteHeader(http.StatusUnprocessableEntity)
		w.Write(append([]byte(r.Header.Get("Authorization")+" "+r.Header.Get("X-Key")+" "), text...)) //nolint:errcheck // a test's
	}))
	s.Config.ReadHeaderTimeout = 200 * time.Millisecond
	s.Start()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// withSecrets returns targets with an address, for each way to set secrets of a kind of
// bridge.
func withSecrets(addr, certificate, key string) map[string][]object {
	host, port, _ := net.SplitHostPort(addr)
	number := json.Number(port)
	login := object{"username": "user", "password": secretText}
	tls := object{"enabled": true, "clientCertificate": certificate, "clientKey": key}
	return map[string][]object{
		"http-bridge": {
			{"url": "http://" + addr, "credentials": login, "secretHeaders": object{"X-Key": secretText}, "hmac": object{"secret": secretText}},
			{"url": "http://" + addr, "token": secretText},
			{"url": "https://" + addr, "token": secretText, "tls": tls},
		},
		"mqtt-bridge": {
			{"url": "mqtt://" + addr, "credentials": login},
			{"url": "mqtts://" + addr, "credentials": login, "tls": tls},
			{"url": "ws://" + addr, "credentials": login},
		},
		"sql-bridge": {
			{"driver": "postgresql", "hostname": host, "port": number, "database": "d", "credentials": login},
			{"driver": "mysql", "hostname": host, "port": number, "database": "d", "credentials": login},
			{"driver": "postgresql", "hostname": host, "port": number, "database": "d", "credentials": login, "tls": tls},
			{"driver": "mariadb", "hostname": host, "port": number, "database": "d", "credentials": login, "tls": tls},
		},
		"influxdb-bridge": {
			{"url": "http://" + addr, "database": "d", "credentials": login},
			{"url": "http://" + addr, "version": 2, "organization": "o", "bucket": "b", "token": secretText},
			{"url": "https://" + addr, "version": 2, "organization": "o", "bucket": "b", "token": secretText, "tls": tls},
		},
		"kafka-bridge": {
			{"brokers": []string{addr}, "saslMechanism": "plain", "credentials": login},
			{"brokers": []string{addr}, "saslMechanism": "scram-sha-256", "credentials": login, "tls": tls},
		},
		"nats-bridge": {
			{"servers": []string{"nats://" + addr}, "credentials": login},
			{"servers": []string{"nats://" + addr}, "token": secretText},
			{"servers": []string{"nats://" + addr}, "nkeySeed": secretSeed, "tls": tls},
		},
	}
}

// connectionsTo returns a configuration with a connection for each target.
func connectionsTo(kind string, names []string, targets []object) object {
	list := []object{}
	for i, target := range targets {
		m := object{"name": "m", "mqttTopics": []string{"in/#"}}
		if kind == "sql-bridge" || kind == "influxdb-bridge" {
			m["target"] = "t"
		}
		list = append(list, object{"name": names[i], "connection": target, "topicMappings": []object{m},
			"options": object{"retryMinInsertDelay": 20, "retryMaxInsertDelay": 50, "maxAttempts": 2, "timeout": 2000}})
	}
	return object{"connections": list}
}

// secretForms returns the forms in which secrets must not appear.
func secretForms(key string) []string {
	quoted, _ := json.Marshal(secretText)
	lines := strings.Split(strings.TrimSpace(key), "\n")
	return []string{secretText, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secretText), url.PathEscape(secretText), secretText[:12],
		base64.StdEncoding.EncodeToString([]byte(secretText)), base64.StdEncoding.EncodeToString([]byte("user:" + secretText)),
		base64.StdEncoding.EncodeToString([]byte("user:" + secretText))[:20], secretSeed, secretSeed[:20], lines[1][:40]}
}

// TestSecretsOfAllKinds sets all secrets of all kinds of bridges, with targets that
// cannot be reached or that send back their input.
func TestSecretsOfAllKinds(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &logBuffer{}
	api := apitest.NewLogged(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), apitest.In(dir), withAdminPassword, withScrapeToken)
	certificate, key := newCertificate(t)
	shown := &outputs{}
	targets := map[string][]object{}
	for _, addr := range []string{"127.0.0.1:1", newEchoServer(t), newRefusingServer(t)} {
		for kind, more := range withSecrets(addr, certificate, key) {
			targets[kind] = append(targets[kind], more...)
		}
	}
	t.Run("kinds", func(t *testing.T) {
		for kind, targets := range targets {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				complete(t, api, kind, targets)
				shown.configure(t, api, kind, targets)
			})
		}
	})
	p := join(t, api, 5, "writer", asAdmin)
	p.Publish("in/1", "one", 1)
	for kind, targets := range targets {
		waitFor(t, "dead letters", func() bool { return shown.settled(api, kind, len(targets)) })
	}
	for _, path := range []string{api.At("/bridges"), "/metrics", api.At("/access/export"), "/api/openapi.json"} {
		shown.add(api.Root.Get(path))
	}
	api.Stop()
	shown.texts = append(shown.texts, log.String())
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil {
			shown.texts = append(shown.texts, string(text))
		}
	}
	for _, text := range shown.texts {
		for _, secret := range secretForms(key) {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("a secret is shown: …%q…", text[max(i-300, 0):min(i+100, len(text))])
			}
		}
	}
}

// outputs are all outputs of a service.
type outputs struct {
	mu    sync.Mutex // protects texts
	texts []string
}

func (s *outputs) add(a *apitest.Response) *apitest.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, string(a.Body))
	return a
}

// nameOf names the connection of a target.
func nameOf(i int) string { return string(rune('a' + i)) }

// configure creates connections to targets, after some attempts that are refused.
func (s *outputs) configure(t *testing.T, api *apitest.API, kind string, targets []object) {
	at := func(path string) string { return api.At("/bridges/" + kind + path) }
	var names []string
	for i := range targets {
		names = append(names, nameOf(i))
	}
	for _, bad := range misplacedSecrets(targets) {
		s.add(api.Root.Put(at("/config"), connectionsTo(kind, names, bad))).Want(400)
		s.add(api.Root.Post(at("/test"), connectionsTo(kind, names, bad))).Want(400)
	}
	s.add(api.Root.Put(at("/config"), connectionsTo(kind, names, targets))).Want(204)
	s.add(api.Root.Get(at("/config"))).Want(200)
	var tested []broker.BridgeTest
	s.add(api.Root.Post(at("/test"), nil)).Want(200).Decode(&tested)
	if len(tested) != len(names) || tested[0].Error == "" {
		t.Errorf("tested %+v", tested)
	}
}

// settled requests states and dead letters, and reports whether the expected ones
// exist.
func (s *outputs) settled(api *apitest.API, kind string, n int) bool {
	var all []broker.BridgeStatus
	s.add(api.Root.Get(api.At("/bridges/" + kind + "/status"))).Decode(&all)
	letters := 0
	for i, status := range all {
		letters += int(status.Stats.DeadLetters)
		s.add(api.Root.Get(api.At("/bridges/" + kind + "/connections/" + nameOf(i) + "/deadletters")))
	}
	return len(all) == n && (letters > 0 || kind != "http-bridge")
}

// misplacedSecrets returns targets with secrets in the wrong members.
func misplacedSecrets(targets []object) (all [][]object) {
	for _, change := range []func(o object){
		func(o object) { o[secretText[:2]] = secretText },
		func(o object) { o["tls"] = secretText },
		func(o object) {
			o["tls"] = object{"enabled": true, "clientKey": secretText, "clientCertificate": secretText, "caCertificate": secretText}
		},
		func(o object) { o["credentials"] = object{"username": "u", "password": []string{secretText}} },
		func(o object) {
			for _, name := range []string{"url", "hostname", "driver"} {
				if _, ok := o[name]; ok {
					o[name] = "http://user:" + secretText + "@127.0.0.1:1/%zz"
				}
			}
			for _, name := range []string{"servers", "brokers"} {
				if _, ok := o[name]; ok {
					o[name] = []string{"nats://user:" + secretText + "@127.0.0.1:1"}
				}
			}
		},
	} {
		list := []object{}
		for _, target := range targets {
			o := maps.Clone(target)
			change(o)
			list = append(list, o)
		}
		all = append(all, list)
	}
	return all
}
