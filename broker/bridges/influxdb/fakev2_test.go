package influxdb_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/influxdb"
)

const token = "t0ken-secret"

// fakeV2 is a fake InfluxDB 2, since a real one is not available on every machine.
type fakeV2 struct {
	*httptest.Server
	lines        []string
	nextStatuses []int // statuses of the next requests that have a body
}

func newFakeV2(t *testing.T) *fakeV2 {
	s := &fakeV2{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *fakeV2) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	fail := func(status int, message string) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":"x","message":%q}`, message)
	}
	q := r.URL.Query()
	switch {
	case r.URL.Path == "/base/ping":
		w.WriteHeader(nethttp.StatusNoContent)
	case r.Method != nethttp.MethodPost || r.URL.Path != "/base/api/v2/write" || q.Get("precision") != "ns":
		fail(nethttp.StatusNotFound, "path not found")
	case r.Header.Get("Authorization") != "Token "+token:
		fail(nethttp.StatusUnauthorized, "unauthorized access")
	case q.Get("org") != "plant" || q.Get("bucket") != "b&b":
		fail(nethttp.StatusNotFound, fmt.Sprintf("bucket %q not found", q.Get("bucket")))
	default:
		s.write(w, r, fail)
	}
}

func (s *fakeV2) write(w nethttp.ResponseWriter, r *nethttp.Request, fail func(int, string)) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			fail(nethttp.StatusBadRequest, err.Error())
			return
		}
		body = z
	}
	text, _ := io.ReadAll(body)
	switch {
	case len(text) == 0:
		fail(nethttp.StatusBadRequest, "writing requires points")
	case len(s.nextStatuses) > 0:
		status := s.nextStatuses[0]
		s.nextStatuses = s.nextStatuses[1:]
		fail(status, "not now")
	case strings.Contains(string(text), `"poison"`):
		fail(nethttp.StatusUnprocessableEntity, "failure writing points to database: partial write: field type conflict")
	default:
		s.lines = append(s.lines, strings.Split(strings.TrimSpace(string(text)), "\n")...)
		w.WriteHeader(nethttp.StatusNoContent)
	}
}

func (s *fakeV2) connection(bucket, token string) string {
	return fmt.Sprintf(`"version":2,"url":"%s/base","organization":"plant","bucket":%q,"token":%q`, s.URL, bucket, token)
}

func TestSecondVersion(t *testing.T) {
	t.Parallel()
	s := newFakeV2(t)
	c := compile(t, s.connection("b&b", token), ``, `,"target":"m"`)
	s.nextStatuses = []int{nethttp.StatusServiceUnavailable, nethttp.StatusTooManyRequests, nethttp.StatusInternalServerError}
	o := bridgestest.Drive(t, c, []*bridges.Entry{bridgestest.Entry(1, "a b", "1"), bridgestest.Entry(2, "a", `"poison"`), bridgestest.Entry(3, "a", "3")}, 10, nil)
	if diff := cmp.Diff([]string{`m,topic=a\ b value=1 1700000000001000001`, `m,topic=a value=3 1700000000003000003`}, s.lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	want := bridgestest.Outcome{
		Rejected: map[uint64]string{2: "InfluxDB does not accept the point (status 422)"},
		Failures: []string{`the server did not write to the bucket "b&b" of the organization "plant" (status 503)`, "the server accepts no more requests for now (status 429)",
			`the server did not write to the bucket "b&b" of the organization "plant" (status 500)`},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
}

func TestSecondVersionMissing(t *testing.T) {
	t.Parallel()
	s := newFakeV2(t)
	for connection, want := range map[string]string{
		s.connection("b&b", "wr0ng-secret"): "the server refuses this client",
		s.connection("none", token):         `the server has not found the bucket "none" of the organization "plant": create it`,
	} {
		err := bridgestest.Connect(t, compile(t, connection, ``, `,"target":"m"`))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestRedirect checks that redirects are not followed, as credentials would be sent to another
// server.
func TestRedirect(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nethttp.RedirectHandler("http://127.0.0.1:1/", nethttp.StatusTemporaryRedirect))
	defer s.Close()
	err := bridgestest.Connect(t, compile(t, fmt.Sprintf(`"url":%q,"database":"x"`, s.URL), ``, `,"target":"m"`))
	if want := "the server redirects (307): give the URL of the InfluxDB itself"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ server, mapping, want string }{
		{`"url":"influx:8086","database":"d"`, `,"target":"m"`, "connection.url"},
		{`"url":"http://u:p@influx","database":"d"`, `,"target":"m"`, "connection.url"},
		{`"url":"http://influx?db=x","database":"d"`, `,"target":"m"`, "connection.url"},
		{`"url":"http://influx","database":"d","tls":{"enabled":true}`, `,"target":"m"`, "connection.url"},
		{`"url":"http://influx"`, `,"target":"m"`, "connection.database"},
		{`"url":"http://influx","version":2`, `,"target":"m"`, "connection.bucket"},
		{`"url":"http://influx","database":"d","token":"t"`, `,"target":"m"`, "connection.token"},
		{`"url":"http://influx","version":2,"bucket":"b","database":"d"`, `,"target":"m"`, "connection.database"},
		{`"url":"http://influx","database":"d"`, `,"target":"${nonsense}"`, "topicMappings[0].target"},
		{`"url":"http://influx","database":"d"`, `,"target":"m","tags":{"time":"x"}`, "topicMappings[0].tags"},
		{`"url":"http://influx","database":"d"`, `,"target":"m","tags":{"a":"${"}`, "topicMappings[0].tags.a"},
		{`"url":"http://influx","database":"d"`, `,"target":"m","timestamp":"when"`, "topicMappings[0].timestamp"},
	} {
		_, problems := influxdb.Kind{}.Compile(connection(t, tt.server, ``, tt.mapping))
		if len(problems) != 1 || problems[0].Path != tt.want {
			t.Errorf("%s %s: got %v, want one at %s", tt.server, tt.mapping, problems, tt.want)
		}
	}
}

// TestSilence checks that a delivery to a server that does not respond respects its deadline.
func TestSilence(t *testing.T) {
	t.Parallel()
	c := compile(t, fmt.Sprintf(`"url":"http://%s","database":"x"`, bridgestest.Silent(t, nil)), ``, `,"target":"m"`)
	for name, call := range map[string]func(context.Context) error{
		"connect": c.Connect,
		"check":   c.Check,
		"deliver": func(ctx context.Context) error {
			return c.Deliver(ctx, []*bridges.Entry{bridgestest.Entry(1, "a", "1")}, make([]bridges.Result, 1))
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := call(ctx); err == nil || !strings.HasPrefix(err.Error(), "the server did not answer in time") {
			t.Errorf("%s: got %v, want that it did not answer", name, err)
		}
	}
}
