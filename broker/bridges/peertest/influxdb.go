package peertest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// InfluxMaxBody is the maximum size of a request to an InfluxDB, in bytes.
const InfluxMaxBody = 1 << 20

// InfluxDB is an InfluxDB 1 with an administrator and a database.
type InfluxDB struct {
	URL      string // of its HTTP API
	Address  string // host:port of the API
	CA       []byte // of its certificate, PEM; nil without TLS
	Database string
	Username string
	Password string

	*peer
	files  files
	client *http.Client
}

// StartInfluxDB starts an InfluxDB that ends with the test. With TLS it accepts nothing else. It
// is always durable.
func StartInfluxDB(t testing.TB, opts ...Option) *InfluxDB {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	binary := find(t, "influxdb", "influxd")
	s := &InfluxDB{Database: "plant", Username: "admin", Password: rand.Text(), files: newFiles(t)}
	s.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // #nosec G402 -- the test's own server
	s.peer = &peer{name: "influxd", binary: binary, dir: s.files.dir, serves: "Listening on HTTP", taken: "address already in use",
		end: syscall.SIGTERM, command: func(testing.TB) []string { return []string{"-config", s.files.path("influxdb.conf")} }}
	var secure string
	if o.tls {
		ca, cert, key := s.files.certificate(t)
		s.CA = ca
		secure = fmt.Sprintf("https-enabled = true\nhttps-certificate = %q\nhttps-private-key = %q\n", cert, key)
	}
	s.first(t, func() { s.configure(t, secure) })
	s.Query(t, fmt.Sprintf("CREATE USER %s WITH PASSWORD '%s' WITH ALL PRIVILEGES", s.Username, s.Password))
	s.Query(t, "CREATE DATABASE "+s.Database)
	return s
}

// configure chooses ports and writes the configuration.
func (s *InfluxDB) configure(t testing.TB, secure string) {
	t.Helper()
	s.Address = brokertest.FreePort(t, "127.0.0.1")
	s.URL = "http://" + s.Address
	if secure != "" {
		s.URL = "https://" + s.Address
	}
	s.files.write(t, "influxdb.conf", fmt.Appendf(nil, `
reporting-disabled = true
bind-address = %q
[meta]
dir = %q
[data]
dir = %q
wal-dir = %q
[http]
bind-address = %q
auth-enabled = true
log-enabled = false
max-body-size = %d
%s
[monitor]
store-enabled = false
[continuous_queries]
enabled = false
`, brokertest.FreePort(t, "127.0.0.1"), s.files.path("meta"), s.files.path("data"), s.files.path("wal"), s.Address, InfluxMaxBody, secure))
}

// Query executes a statement as the administrator and returns the rows of all series, with a
// value for every column.
func (s *InfluxDB) Query(t testing.TB, statement string) (rows [][]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
	defer cancel()
	form := url.Values{"q": {statement}, "db": {s.Database}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/query", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(s.Username, s.Password)
	answer, err := s.client.Do(req)
	if err != nil {
		t.Fatalf("query influxd: %v", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("query influxd: %v", err)
	}
	rows, err = influxRows(body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("query influxd: %s: %v: %s", answer.Status, err, body)
	}
	return rows
}

func influxRows(body []byte) (rows [][]any, err error) {
	var parsed struct {
		Results []struct {
			Error  string
			Series []struct{ Values [][]any }
		}
	}
	if err := json.Unmarshal(body, &parsed); err != nil {
		return nil, err
	}
	for _, r := range parsed.Results {
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		for _, series := range r.Series {
			rows = append(rows, series.Values...)
		}
	}
	return rows, nil
}
