package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	stdsql "database/sql"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate returns a certificate that signs itself, and its key, as PEM.
func certificate(t *testing.T, from, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plant.example"}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)
}

// brokenCertificates are files of http.tls.
func brokenCertificates(t *testing.T) []broken {
	t.Helper()
	now := time.Now()
	good, key := certificate(t, now.Add(-time.Hour), soon(90))
	other, otherKey := certificate(t, now.Add(-time.Hour), soon(90))
	expired, expiredKey := certificate(t, now.Add(-48*time.Hour), now.Add(-24*time.Hour))
	ending, endingKey := certificate(t, now.Add(-time.Hour), soon(10))
	early, earlyKey := certificate(t, now.Add(24*time.Hour), soon(90))
	const object = "http.tls"
	return []broken{
		{"certificate lost", nil, tlsFiles(t, "", key), found{Level: "error", Check: "certificates", Object: object, Text: "cannot be read"}, nil},
		{"certificate expired", nil, tlsFiles(t, expired, expiredKey), found{Level: "error", Check: "certificates", Object: object, Text: "has expired"}, nil},
		{"certificate ends soon", nil, tlsFiles(t, ending, endingKey), found{Level: "warning", Check: "certificates", Object: object, Text: "expires in 10 days"}, nil},
		{"certificate not valid yet", nil, tlsFiles(t, early, earlyKey), found{Level: "error", Check: "certificates", Object: object, Text: "is not valid before"}, nil},
		{"key of another certificate", nil, tlsFiles(t, good, otherKey), found{Level: "error", Check: "certificates", Object: object, Text: "does not fit"}, nil},
		{"chain in wrong order", nil, tlsFiles(t, good+other, key), found{Level: "warning", Check: "certificates", Object: object, Text: "the chain is broken"}, nil},
		{"no authorities of clients", nil, tlsFiles(t, good, key) + "audit: {sinks: {syslog: 'tls://127.0.0.1:1', ca_file: " + file(t, "ca.pem", "nothing") + "}}\n",
			found{Level: "error", Check: "certificates", Object: "audit.sinks.ca_file", Text: "holds no certificate"}, nil},
	}
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// tlsFiles returns a configuration with a certificate, "" for a file that does not exist.
func tlsFiles(t *testing.T, cert, key string) string {
	t.Helper()
	path := file(t, "cert.pem", cert)
	if cert == "" {
		must(t, os.Remove(path))
	}
	return fmt.Sprintf("http: {listen: '127.0.0.1:0', tls: {cert_file: %s, key_file: %s}}\n", path, file(t, "key.pem", key)) + anyMQTT
}

// sql changes a database of a service that does not run.
func sql(name, statement string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		db, err := stdsql.Open("sqlite", filepath.Join(dir, name))
		must(t, err)
		_, err = db.ExecContext(t.Context(), statement)
		must(t, err, db.Close())
	}
}

// overwrittenPage overwrites a page that belongs to a table.
func overwrittenPage(t *testing.T, dir string) {
	path := filepath.Join(dir, "streams.db")
	db, err := stdsql.Open("sqlite", path)
	must(t, err)
	var page, size int64
	must(t, db.QueryRowContext(t.Context(), "SELECT max(rootpage), (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE type = 'table'").Scan(&page, &size), db.Close())
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("noise---", 256)), (page-1)*size)
	must(t, err, f.Close())
}
