package handlers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/broker"
	"signalbox/db"
)

// ConnectionBody is how a broker is reached. Null clears a member.
type ConnectionBody struct {
	Description    Opt[string]        `json:"description" nullable:"true" doc:"Description; null clears it, default empty." example:"Broker of hall 3"`
	Username       Opt[string]        `json:"username" nullable:"true" minlen:"1" doc:"Username with which the service connects; null for none." example:"signalbox"`
	Password       Opt[broker.Secret] `json:"password" nullable:"true" minlen:"1" doc:"Password with which the service connects; null for none. It is stored encrypted and never returned." example:"correct-horse-battery"`
	CACert         Opt[string]        `json:"ca_cert" nullable:"true" minlen:"1" doc:"Certificate authorities with which the broker is verified, as PEM; null for those of the system. It takes precedence over ca_cert_file." example:"-"`
	CACertFile     Opt[string]        `json:"ca_cert_file" nullable:"true" minlen:"1" doc:"Name of a PEM file in the directory certs of the data directory." example:"plant-ca.pem"`
	ClientCert     Opt[string]        `json:"client_cert" nullable:"true" minlen:"1" doc:"Client certificate and its chain, as PEM. It takes precedence over client_cert_file." example:"-"`
	ClientCertFile Opt[string]        `json:"client_cert_file" nullable:"true" minlen:"1" doc:"Name of a PEM file in the directory certs of the data directory." example:"-"`
	ClientKey      Opt[broker.Secret] `json:"client_key" nullable:"true" minlen:"1" doc:"Key of the client certificate, as PEM without a passphrase. It takes precedence over client_key_file." example:"-"`
	ClientKeyFile  Opt[string]        `json:"client_key_file" nullable:"true" minlen:"1" doc:"Name of a PEM file in the directory certs of the data directory." example:"-"`
	Fingerprint    Opt[string]        `json:"server_fingerprint" nullable:"true" minlen:"1" doc:"SHA-256 fingerprint of the only certificate that the broker may present: 64 hexadecimal digits, with or without colons. Authorities, names and dates are then not checked, and verify_ca_cert and ca_cert are ignored. Requires TLS; null for none." example:"5E:C6:0C:4D:7A:26:1B:9F:0A:7B:5D:4C:2F:F3:10:88:3E:93:7D:6B:1C:55:0E:AA:41:9D:C2:77:60:F8:2B:13"`
	VerifyCACert   Opt[bool]          `json:"verify_ca_cert" doc:"False accepts any certificate of the broker; default true." example:"true"`
	MetricsEnabled Opt[bool]          `json:"metricsEnabled" doc:"Whether metrics of the broker are enabled; default true." example:"true"`
	TopicTree      Opt[bool]          `json:"topictree" nullable:"true" doc:"False never subscribes to all topics, which is done to build the topic tree of a broker that has none; default true, to which null returns." example:"true"`
	HA             Opt[bool]          `json:"ha" doc:"Whether the broker is highly available; default false. While the broker is a node of a cluster of the project, the value is ignored and the record shows true." example:"false"`
	ClusterMode    Opt[string]        `json:"clustermode" nullable:"true" enum:"full|dynsec|hp" doc:"Mode of a cluster that was created elsewhere; null or absent for none. While the broker is a node of a cluster of the project, the value is ignored and the record shows the mode of that cluster." example:"-"`
}

var brokerSchemes = []string{"mqtt", "mqtts", "tcp", "ssl", "ws", "wss"}

// checkURL refuses URLs that cannot be connected to, and URLs with credentials, which
// would appear in lists and logs.
func checkURL(raw string) []FieldError {
	bad := func(message string) []FieldError { return []FieldError{{"body.url", message}} }
	if raw == "" {
		return nil // reported by the tags
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return bad("must be a URL with a host, as in mqtt://broker.example:1883")
	case !slices.Contains(brokerSchemes, u.Scheme):
		return bad("must begin with one of mqtt, mqtts, tcp, ssl, ws, wss")
	case u.User != nil:
		return bad("must not hold credentials; give username and password as members of their own")
	}
	return nil
}

// check validates the certificates and keys, inline and in files.
func (b ConnectionBody) check(certDir string) []FieldError {
	var bad []FieldError
	add := func(field string, err error) {
		if err != nil {
			bad = append(bad, FieldError{"body." + field, err.Error()})
		}
	}
	add("ca_cert", checkCerts(b.CACert.Value))
	add("client_cert", checkCerts(b.ClientCert.Value))
	add("client_key", checkKey(string(b.ClientKey.Value)))
	add("server_fingerprint", checkFingerprint(b.Fingerprint.Value))
	for _, f := range []struct {
		field string
		name  string
		check func(string) error
	}{
		{"ca_cert_file", b.CACertFile.Value, checkCerts},
		{"client_cert_file", b.ClientCertFile.Value, checkCerts},
		{"client_key_file", b.ClientKeyFile.Value, checkKey},
	} {
		text, err := certFile(certDir, f.name)
		if err == nil {
			err = f.check(text)
		}
		add(f.field, err)
	}
	return bad
}

func checkCerts(text string) error {
	if text == "" {
		return nil
	}
	rest, found := []byte(text), false
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("must hold certificates only, not a %s", strings.ToLower(block.Type))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return errors.New("holds a certificate that cannot be read")
		}
		found = true
	}
	if !found {
		return errors.New("must be a certificate as PEM (-----BEGIN CERTIFICATE-----)")
	}
	return nil
}

func checkKey(text string) error {
	if text == "" {
		return nil
	}
	block, _ := pem.Decode([]byte(text))
	switch {
	case block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return errors.New("must be a private key as PEM (-----BEGIN PRIVATE KEY-----)")
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
		return errors.New("must not be protected by a passphrase; signalbox encrypts it at rest")
	}
	return nil
}

func checkFingerprint(text string) error {
	if text == "" {
		return nil
	}
	_, err := broker.ParseFingerprint(text)
	return err
}

// checkPin checks that a pinned certificate protects the connection of a record, which it
// cannot without TLS.
func checkPin(row db.Broker) error {
	scheme, _, _ := strings.Cut(row.URL, "://")
	if row.Fingerprint == "" || broker.SchemeUsesTLS(scheme) {
		return nil
	}
	return Invalid(FieldError{"body.server_fingerprint", "can be used with mqtts://, ssl:// and wss:// only: without TLS the broker presents no certificate"})
}

// certFile reads a file in the directory for certificates; callers of the API can read
// no other file of the machine.
func certFile(dir, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if !filepath.IsLocal(name) {
		return "", errors.New("must be the name of a file in the directory certs of the data directory")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", errors.New("the directory certs of the data directory cannot be read")
	}
	defer root.Close()
	text, err := root.ReadFile(name)
	if err != nil {
		return "", errors.New("cannot be read; put the file into the directory certs of the data directory")
	}
	return string(text), nil
}

// sealed is the encrypted part of a stored connection.
type sealed struct {
	Password  string `json:"password,omitempty"`
	ClientKey string `json:"client_key,omitempty"`
}

func (c *Connections) unseal(row db.Broker) (sealed, error) {
	var s sealed
	if len(row.Secrets) == 0 {
		return s, nil
	}
	plain, err := c.Vault.Unseal(row.Secrets, []byte(row.ID))
	if err != nil {
		return s, fmt.Errorf("secrets of broker %s: %w", row.ID, err)
	}
	return s, json.Unmarshal(plain, &s)
}

// merge writes the given members of a connection to its record.
func (a *API) merge(row *db.Broker, b ConnectionBody) error {
	secrets, err := a.unseal(*row)
	if err != nil {
		return err
	}
	mergeSecret(b.Password, &secrets.Password)
	mergeSecret(b.ClientKey, &secrets.ClientKey)
	b.Description.merge(&row.Description)
	b.Username.merge(&row.Username)
	b.CACert.merge(&row.CACert)
	b.CACertFile.merge(&row.CACertFile)
	b.ClientCert.merge(&row.ClientCert)
	b.ClientCertFile.merge(&row.ClientCertFile)
	b.ClientKeyFile.merge(&row.ClientKeyFile)
	if b.Fingerprint.merge(&row.Fingerprint); row.Fingerprint != "" {
		f, err := broker.ParseFingerprint(row.Fingerprint)
		if err != nil {
			return fmt.Errorf("server_fingerprint of broker %s: %w", row.ID, err)
		}
		row.Fingerprint = f.String()
	}
	b.VerifyCACert.merge(&row.VerifyCACert)
	b.MetricsEnabled.merge(&row.MetricsEnabled)
	b.TopicTree.mergeOr(&row.TopicTree, true)
	b.HA.merge(&row.HA)
	b.ClusterMode.merge(&row.ClusterMode)
	row.HasPassword, row.HasClientKey = secrets.Password != "", secrets.ClientKey != ""
	plain, err := json.Marshal(secrets)
	if err != nil {
		return err
	}
	row.Secrets = a.Vault.Seal(plain, []byte(row.ID))
	return nil
}

// movedSecrets returns the stored secrets that a change would send to another address,
// or under other TLS checks than those they were set for, unless the change sets or
// clears them: a caller who may change a connection must not learn its password that
// way.
func movedSecrets(before, after db.Broker, b ConnectionBody) []FieldError {
	why := movedBy(before, after)
	if why == "" {
		return nil
	}
	var bad []FieldError
	for _, s := range []struct {
		field  string
		stored bool
		given  Opt[broker.Secret]
	}{{"password", before.HasPassword, b.Password}, {"client_key", before.HasClientKey, b.ClientKey}} {
		if s.stored && !s.given.Set {
			bad = append(bad, FieldError{"body." + s.field, "must be given again, since " + why +
				" changes: a stored secret is sent only to the address, and with the TLS checks, for which it was given"})
		}
	}
	return bad
}

// movedBy returns the first member that changes the address of a connection or how its
// broker is authenticated, "" for none.
func movedBy(before, after db.Broker) string {
	switch {
	case before.URL != after.URL:
		return "url"
	case before.VerifyCACert && !after.VerifyCACert:
		return "verify_ca_cert"
	case before.CACert != after.CACert:
		return "ca_cert"
	case before.CACertFile != after.CACertFile:
		return "ca_cert_file"
	case before.ClientCert != after.ClientCert:
		return "client_cert"
	case before.ClientCertFile != after.ClientCertFile:
		return "client_cert_file"
	case before.Fingerprint != after.Fingerprint:
		return "server_fingerprint"
	}
	return ""
}

func mergeSecret(o Opt[broker.Secret], dst *string) {
	secret := broker.Secret(*dst)
	o.merge(&secret)
	*dst = string(secret)
}

// checkTLS checks that the client certificate has its key, and that a pin has a certificate
// to be compared with.
func (a *API) checkTLS(row db.Broker) error {
	if err := checkPin(row); err != nil {
		return err
	}
	t, err := a.target(row)
	if err != nil {
		return err
	}
	switch cert, key := t.TLS.ClientCert, string(t.TLS.ClientKey); {
	case cert == "" && key == "":
		return nil
	case cert == "":
		return Invalid(FieldError{"body.client_cert", "is required with client_key"})
	case key == "":
		return Invalid(FieldError{"body.client_key", "is required with client_cert"})
	default:
		if _, err := tls.X509KeyPair([]byte(cert), []byte(key)); err != nil {
			return Invalid(FieldError{"body.client_key", "does not belong to client_cert"})
		}
		return nil
	}
}

// target returns what is needed to connect. The record takes precedence over files.
func (c *Connections) target(row db.Broker) (broker.Target, error) {
	secrets, err := c.unseal(row)
	if err != nil {
		return broker.Target{}, err
	}
	t := broker.Target{ID: row.ID, Rev: row.Rev, URL: row.URL, Username: row.Username, Password: broker.Secret(secrets.Password), TopicTree: row.TopicTree,
		TLS: broker.TLS{CACert: row.CACert, ClientCert: row.ClientCert, ClientKey: broker.Secret(secrets.ClientKey), Verify: row.VerifyCACert, Fingerprint: row.Fingerprint}}
	key := string(t.TLS.ClientKey)
	for _, f := range []struct {
		text *string
		name string
	}{{&t.TLS.CACert, row.CACertFile}, {&t.TLS.ClientCert, row.ClientCertFile}, {&key, row.ClientKeyFile}} {
		if *f.text != "" {
			continue
		}
		if *f.text, err = certFile(c.CertDir, f.name); err != nil {
			return t, &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: f.name + ": " + err.Error(), Err: err}
		}
	}
	t.TLS.ClientKey = broker.Secret(key)
	return t, nil
}

// Certificates returns the certificates of a record as PEM, those of its files included: the
// authorities of the broker and the client certificate, "" for none.
func (c *Connections) Certificates(row db.Broker) (authorities, client string, err error) {
	t, err := c.target(row)
	return t.TLS.CACert, t.TLS.ClientCert, err
}

// InProcess reports whether a record is that of the broker in this process, also while that is
// disabled, or that of the broker of another node of a cluster.
func InProcess(row db.Broker) bool { return isOnPremise(row) }

// connect returns the live broker of a record; it may not be connected yet.
func (c *Connections) connect(row db.Broker) (broker.Broker, error) {
	if row.ID != c.Embedded() {
		if err := c.checkEmbedded(row); err != nil {
			return nil, err
		}
	}
	if b := c.Brokers.Live(row.ID, row.Rev); b != nil {
		return b, nil
	}
	t, err := c.target(row)
	if err != nil {
		return nil, err
	}
	t.Membership = overCluster(row)
	return c.Brokers.Get(t)
}

// connectInBackground connects in the background, so that the broker's state is known at the next
// request.
func (c *Connections) connectInBackground(row db.Broker) {
	if _, err := c.connect(row); err != nil {
		c.Log.Warn("cannot connect to the broker", "broker", row.ID, "error", err)
	}
}

// dropTime bounds closing a connection and deleting what belongs to it.
const dropTime = 30 * time.Second

// drop closes the connection of a deleted record, and deletes the streams and bridges
// that were created for it. No caller could request that again, so it is completed even
// if the caller does not wait.
func (c *Connections) drop(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	if err := c.Brokers.Drop(ctx, id); err != nil {
		c.Log.Warn("broker connection was not closed cleanly", "broker", id, "error", err)
	}
	for _, own := range c.BrokerData {
		if err := own.Forget(ctx, id); err != nil {
			c.Log.Error("data of a deleted broker connection could not be deleted", "data", own.Name, "broker", id, "error", err)
		}
	}
}
