package apitest_test

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// recorder is a server that sends nothing and records its input.
type recorder struct {
	addr string

	mu   sync.Mutex // protects got
	got  []byte
	conn int
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	r.addr = suite.Listen(t, func(conn net.Conn) {
		r.mu.Lock()
		r.conn++
		r.mu.Unlock()
		io.Copy(r, io.LimitReader(conn, 1<<16)) //nolint:errcheck // until the peer closes
	})
	return r
}

// Write records its input.
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, p...)
	return len(p), nil
}

func (r *recorder) saw(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.got, []byte(text))
}

// connections returns how many were accepted.
func (r *recorder) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// TestStoredPasswordStaysAtItsAddress tries, as an editor, who may not read a password,
// to have it sent to another address.
func TestStoredPasswordStaysAtItsAddress(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	thief, editor := newRecorder(t), api.Token("editor")
	id := addBroker(t, api, object{"name": "b", "url": "mqtt://127.0.0.1:1", "username": "u", "password": bridgeSecret})
	at := api.BrokerAt(id, "")

	answer := editor.Put(at, object{"url": "mqtt://" + thief.addr}).WantError(400, "INVALID_REQUEST")
	if got := fieldsOf(answer); !slices.Equal(got, []string{"body.password"}) {
		t.Errorf("named %v, want body.password", got)
	}
	if got := brokerRecord(api, id).URL; got != "mqtt://127.0.0.1:1" {
		t.Errorf("the refused URL %s is stored", got)
	}
	editor.Put(at, object{"url": "mqtt://" + thief.addr, "password": "another"}).Want(204)
	waitFor(t, "the new password at the new address", func() bool { return thief.saw("another") })
	if thief.saw(bridgeSecret) {
		t.Error("the stored password came to the new address")
	}
	editor.Put(at, object{"url": "mqtt://127.0.0.1:1", "password": nil}).Want(204)
	if brokerRecord(api, id).HasPassword {
		t.Error("the password was not cleared")
	}
	editor.Put(at, object{"url": "mqtt://" + thief.addr}).Want(204) // nothing to protect
}

// fieldsOf returns the fields that a response names, in order.
func fieldsOf(answer *apitest.Response) []string {
	fields := answer.Fields()
	slices.Sort(fields)
	return slices.Compact(fields)
}

// fingerprint is that of a certificate that no broker has.
const fingerprint = "5E:C6:0C:4D:7A:26:1B:9F:0A:7B:5D:4C:2F:F3:10:88:3E:93:7D:6B:1C:55:0E:AA:41:9D:C2:77:60:F8:2B:13"

// TestPinStaysUnlessItIsCleared changes a pinned connection.
func TestPinStaysUnlessItIsCleared(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addBroker(t, api, object{"name": "b", "url": "mqtts://127.0.0.1:1", "server_fingerprint": strings.ToLower(strings.ReplaceAll(fingerprint, ":", ""))})
	at := api.BrokerAt(id, "")
	api.Root.Put(at, object{"name": "c", "verify_ca_cert": false}).Want(204)
	if got := brokerRecord(api, id).Fingerprint; got == nil || *got != fingerprint {
		t.Errorf("stored %v, want %s", got, fingerprint)
	}
	if got := fieldsOf(api.Root.Put(at, object{"url": "mqtt://127.0.0.1:1"}).WantError(400, "INVALID_REQUEST")); !slices.Equal(got, []string{"body.server_fingerprint"}) {
		t.Errorf("without TLS: named %v, want body.server_fingerprint", got)
	}
	api.Root.Put(at, object{"url": "mqtt://127.0.0.1:1", "server_fingerprint": nil}).Want(204)
	if got := brokerRecord(api, id).Fingerprint; got != nil {
		t.Errorf("stored %s after it was cleared", *got)
	}
}

// TestStoredSecretsOfSecuredConnections tries each change that weakens or moves a
// connection, and those that do not.
func TestStoredSecretsOfSecuredConnections(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	certificate, key := newCertificate(t)
	otherCertificate, otherKey := newCertificate(t)
	editor := api.Token("editor")
	base := object{"name": "b", "url": "mqtts://127.0.0.1:1", "username": "u", "password": "hush-hush",
		"ca_cert": certificate, "client_cert": certificate, "client_key": key}
	both := []string{"body.client_key", "body.password"}
	for name, c := range map[string]struct {
		change object
		bad    []string // nil if the change is accepted
	}{
		"another scheme":               {object{"url": "mqtt://127.0.0.1:1"}, both},
		"another host":                 {object{"url": "mqtts://127.0.0.2:1"}, both},
		"another port":                 {object{"url": "mqtts://127.0.0.1:2"}, both},
		"no check":                     {object{"verify_ca_cert": false}, both},
		"a pinned certificate":         {object{"server_fingerprint": fingerprint}, both},
		"another authority":            {object{"ca_cert": otherCertificate}, both},
		"the system's authorities":     {object{"ca_cert": nil}, both},
		"another certificate":          {object{"client_cert": otherCertificate}, both},
		"no certificate":               {object{"client_cert": nil, "client_key": nil}, []string{"body.password"}},
		"another key only":             {object{"client_cert": otherCertificate, "client_key": otherKey}, []string{"body.password"}},
		"the password without the key": {object{"url": "mqtts://127.0.0.2:1", "password": "x"}, []string{"body.client_key"}},
		"all of it":                    {object{"url": "mqtts://127.0.0.2:1", "password": "x", "client_key": key}, nil},
		"the same url":                 {object{"url": "mqtts://127.0.0.1:1", "verify_ca_cert": true}, nil},
		"another name and user":        {object{"name": "c", "username": "v", "description": "d", "topictree": false}, nil},
		"another password":             {object{"password": "new"}, nil},
	} {
		id := addBroker(t, api, base)
		before := brokerRecord(api, id)
		answer := editor.Put(api.BrokerAt(id, ""), c.change)
		if c.bad == nil {
			answer.Want(204)
			continue
		}
		answer.WantError(400, "INVALID_REQUEST")
		if got := fieldsOf(answer); !slices.Equal(got, c.bad) {
			t.Errorf("%s: named %v, want %v", name, got, c.bad)
		}
		after := brokerRecord(api, id)
		if after.URL != before.URL || *after.CACert != *before.CACert || *after.ClientCert != *before.ClientCert || !after.VerifyCACert {
			t.Errorf("%s: a refused change is stored", name)
		}
	}
	id := addBroker(t, api, object{"name": "b", "url": "mqtts://127.0.0.1:1", "password": "x", "verify_ca_cert": false})
	editor.Put(api.BrokerAt(id, ""), object{"verify_ca_cert": true}).Want(204) // a stronger check
}

// TestReadRecordIsSentBack sends back the record of a connection with secrets.
func TestReadRecordIsSentBack(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	certificate, key := newCertificate(t)
	for _, body := range []object{
		{"name": "plain", "url": "mqtt://127.0.0.1:1", "username": "u", "password": "hush-hush"},
		{"name": "pinned", "url": "wss://127.0.0.1:1", "username": "u", "password": "hush-hush", "server_fingerprint": strings.ToLower(fingerprint)},
		{"name": "secured", "url": "mqtts://127.0.0.1:1", "username": "u", "password": "hush-hush",
			"ca_cert": certificate, "client_cert": certificate, "client_key": key},
	} {
		id := addBroker(t, api, body)
		var read object
		api.Root.Get(api.BrokerAt(id, "")).Want(200).Decode(&read)
		read["name"] = "renamed"
		api.Root.Put(api.BrokerAt(id, ""), read).Want(204)
		if r := brokerRecord(api, id); r.Name != "renamed" || !r.HasPassword || r.HasClientKey != (body["client_key"] != nil) {
			t.Errorf("%s: after it was sent back: %+v", body["name"], r)
		}
	}
}
