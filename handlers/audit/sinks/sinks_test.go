package sinks

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gosyslog "github.com/leodido/go-syslog/v4"
	"github.com/leodido/go-syslog/v4/octetcounting"
	"github.com/leodido/go-syslog/v4/rfc5424"

	"signalbox/db"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// rig is a database with an audit log.
type rig struct {
	t *testing.T
	d *db.DB
}

func newRig(t *testing.T) *rig {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "signalbox.db"), slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(func() { d.Close(context.Background()) }) //nolint:errcheck // the test is over
	return &rig{t, d}
}

// add adds rows with the names of operations.
func (r *rig) add(operations ...string) {
	r.t.Helper()
	for _, o := range operations {
		must(r.t, r.d.AddAudit(r.t.Context(), db.AuditEvent{Time: time.Now(), Operation: o, Outcome: db.AuditDone}))
	}
}

// checkpoint adds a signed state of the last row.
func (r *rig) checkpoint(note string) {
	r.t.Helper()
	head, err := r.d.AuditState(r.t.Context())
	must(r.t, err, r.d.AddAuditCheckpoint(r.t.Context(), db.AuditCheckpoint{AuditHead: head, Time: time.Now(), Note: note}))
}

// options are those of tests: rows are looked for often.
func options() Options {
	return Options{Encode: encode, Log: slog.New(slog.DiscardHandler), Now: time.Now, Interval: 5 * time.Millisecond, Settle: time.Millisecond}
}

func encode(e db.AuditEvent) ([]byte, error) {
	return json.Marshal(map[string]any{"operation": e.Operation, "change": e.Change})
}

// start copies until the test or the returned function ends it.
func (r *rig) start(c Config, o Options) (s *Sinks, stop func()) {
	r.t.Helper()
	s = New(r.d, c, o)
	must(r.t, c.Validate(), s.Start(r.t.Context()))
	var once sync.Once
	stop = func() { once.Do(func() { must(r.t, s.Close(r.t.Context())) }) }
	r.t.Cleanup(func() { once.Do(func() { s.Close(context.Background()) }) }) //nolint:errcheck // it returns none
	return s, stop
}

// waitFor waits until the only destination has the rows up to seq.
func (r *rig) waitFor(s *Sinks, seq int64) {
	r.t.Helper()
	suite.WaitFor(r.t, fmt.Sprint("row ", seq, " is sent"), func() bool { return r.status(s).Seq >= seq })
}

func (r *rig) status(s *Sinks) Status {
	r.t.Helper()
	all, err := s.Status(r.t.Context())
	must(r.t, err)
	return all[0]
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// names returns the operations and the notes of JSON lines.
func names(t *testing.T, text []byte) []string {
	t.Helper()
	var all []string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var r struct{ Operation, Checkpoint string }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			all = append(all, "damaged")
			continue
		}
		all = append(all, r.Operation+r.Checkpoint)
	}
	return all
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// The file is continued after a restart, after it was renamed and after a line was cut off.
func TestFile(t *testing.T) {
	t.Parallel()
	r, path := newRig(t), filepath.Join(t.TempDir(), "audit.jsonl")
	c := Config{File: path}
	r.add("a", "b")
	r.checkpoint("signed")
	s, stop := r.start(c, options())
	r.waitFor(s, 2)
	r.add("c")
	r.waitFor(s, 3)
	stop()
	text, err := os.ReadFile(path)
	must(t, err)
	want(t, "first run", names(t, text), "a", "b", "signed", "c")

	must(t, os.Rename(path, path+".1"))
	r.add("d")
	s, stop = r.start(c, options())
	r.waitFor(s, 4)
	stop()
	text, err = os.ReadFile(path)
	must(t, err, os.WriteFile(path, append(text, `{"oper`...), 0o600))
	want(t, "after it was renamed", names(t, text), "d")

	r.add("e")
	_, stop = r.start(c, options())
	stop() // sends what is left
	text, err = os.ReadFile(path)
	must(t, err)
	want(t, "after a line was cut off", names(t, text), "d", "damaged", "e")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A pipe receives the rows as well, although it cannot be synced.
func TestPipe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close() //nolint:errcheck // the test is over
	r.add("a", "b")
	s, stop := r.start(Config{File: fmt.Sprintf("/proc/self/fd/%d", out.Fd())}, options())
	r.waitFor(s, 2)
	stop()
	must(t, out.Close())
	text, err := io.ReadAll(in)
	must(t, err)
	want(t, "received", names(t, text), "a", "b")
}

// The rows that a webhook has refused, or that were redirected, are sent again in order.
func TestWebhook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var status atomic.Int32
	status.Store(http.StatusServiceUnavailable)
	var mu sync.Mutex
	var got []byte
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if q.Header.Get("Authorization") != "Bearer secret-1" || q.URL.Path != "/hook-secret" || err != nil {
			status.Store(http.StatusTeapot)
		}
		if s := int(status.Load()); s != http.StatusOK {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(s)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, body...)
	}))
	defer receiver.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw}), 0o600))
	s, stop := r.start(Config{Webhook: receiver.URL + "/hook-secret", WebhookToken: "secret-1", CAFile: ca}, options())
	r.add("a", "b")
	for _, code := range []int32{503, 302} {
		status.Store(code)
		suite.WaitFor(t, "the refusal is shown", func() bool {
			st := r.status(s)
			return st.Err != nil && strings.Contains(st.Err.Error(), fmt.Sprint(code)) && st.Pending == 2
		})
	}
	status.Store(http.StatusOK)
	r.waitFor(s, 2)
	r.add("c")
	stop()
	want(t, "received", names(t, got), "a", "b", "c")
	if st := r.status(s); strings.Contains(st.Destination, "hook-secret") {
		t.Errorf("the destination is shown as %s", st.Destination)
	}
}

// An error of a webhook that is away does not show its URL.
func TestWebhookAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err, l.Close())
	s, _ := r.start(Config{Webhook: "http://" + l.Addr().String() + "/hook-secret"}, options())
	r.add("a")
	suite.WaitFor(t, "the failure is shown", func() bool { return r.status(s).Err != nil })
	if st := r.status(s); strings.Contains(st.Err.Error(), "hook-secret") || st.Since.IsZero() {
		t.Errorf("got %+v", st)
	}
}

// collector is a syslog receiver, which decodes by another implementation.
type collector struct {
	net.Listener
	mu   sync.Mutex
	got  []string
	bad  error
	full *rfc5424.SyslogMessage // the last one
}

// serve reads the connections, each until after has that many messages; 0 for all.
func (c *collector) serve(after int) {
	for {
		conn, err := c.Accept()
		if err != nil {
			return
		}
		c.read(conn, after)
		conn.Close() //nolint:errcheck // read to its end
		after = 0
	}
}

func (c *collector) read(conn net.Conn, most int) {
	n := 0
	octetcounting.NewParser(gosyslog.WithListener(func(r *gosyslog.Result) {
		c.mu.Lock()
		defer c.mu.Unlock()
		m, ok := r.Message.(*rfc5424.SyslogMessage)
		if r.Error != nil || !ok {
			if !errors.Is(r.Error, net.ErrClosed) && n < most {
				c.bad = r.Error
			}
			return
		}
		if n++; most == 0 || n <= most {
			c.got, c.full = append(c.got, *m.MsgID), m
		}
		if n == most {
			conn.Close() //nolint:errcheck // what was not read is lost
		}
	})).Parse(conn)
}

func (c *collector) received() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.got...)
}

// A receiver loses a connection after the second message: all that may be lost is sent again.
func TestSyslog(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "tls"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			c, cfg := &collector{Listener: l}, Config{Syslog: scheme + "://" + l.Addr().String()}
			if scheme == "tls" {
				certificates := httptest.NewUnstartedServer(nil)
				certificates.StartTLS()
				defer certificates.Close()
				cfg.CAFile = filepath.Join(t.TempDir(), "ca.pem")
				must(t, os.WriteFile(cfg.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificates.Certificate().Raw}), 0o600))
				c.Listener = tls.NewListener(l, certificates.TLS)
			}
			defer c.Close() //nolint:errcheck // the test is over
			go c.serve(2)
			r.add("a", "b", "c")
			o, later := options(), atomic.Int64{}
			o.Settle = time.Hour
			o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			s, _ := r.start(cfg, o)
			suite.WaitFor(t, "all are received", func() bool {
				got := c.received()
				return len(got) > 0 && got[len(got)-1] == "c"
			})
			want(t, "received", c.received(), "a", "b", "a", "b", "c")
			if st := r.status(s); st.Seq != 0 {
				t.Errorf("row %d counts as received at once", st.Seq)
			}
			later.Store(int64(time.Hour))
			r.waitFor(s, 3)
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.bad != nil || *c.full.Facility != 13 || *c.full.Severity != 6 || *c.full.Appname != "signalbox" || !strings.Contains(*c.full.Message, `"operation":"c"`) {
				t.Errorf("got %+v, %v", c.full, c.bad)
			}
		})
	}
}

// A receiver with a certificate that is not trusted gets nothing.
func TestSyslogWithAnotherCertificate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	receiver := httptest.NewTLSServer(nil)
	defer receiver.Close()
	s, _ := r.start(Config{Syslog: "tls://" + receiver.Listener.Addr().String()}, options())
	r.add("a")
	suite.WaitFor(t, "the failure is shown", func() bool { return r.status(s).Err != nil })
	if st := r.status(s); !strings.Contains(st.Err.Error(), "certificate") || st.Seq != 0 {
		t.Errorf("got %+v", st)
	}
}

// A message is not longer than receivers must be able to read.
func TestLongSyslogMessage(t *testing.T) {
	t.Parallel()
	change, err := json.Marshal(map[string]any{"after": map[string]string{"x": strings.Repeat("ä", 8000)}})
	must(t, err)
	e := db.AuditEvent{Time: time.Now(), Operation: "modifyClient", Outcome: db.AuditRefused, Change: change}
	line, err := encode(e)
	must(t, err)
	m := message(&record{event: &e, time: e.Time, json: line})
	parsed, err := rfc5424.NewParser().Parse(m)
	if err != nil || len(m) > maxMessage || !strings.Contains(string(m), "too long for syslog") {
		t.Fatalf("%d bytes, %v", len(m), err)
	}
	if got := parsed.(*rfc5424.SyslogMessage); *got.Severity != 4 || *got.MsgID != "modifyClient" {
		t.Errorf("got %+v", got)
	}
}

// What could not be published is published later.
func TestTopic(t *testing.T) {
	t.Parallel()
	r, o := newRig(t), options()
	var down atomic.Bool
	down.Store(true)
	var mu sync.Mutex
	var got []byte
	o.Publish = func(_ context.Context, topic string, payload []byte) error {
		if down.Load() || topic != "$audit/log" {
			return errors.New("not now")
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(append(got, payload...), '\n')
		return nil
	}
	s, stop := r.start(Config{MQTTTopic: "$audit/log"}, o)
	r.add("a")
	suite.WaitFor(t, "the failure is shown", func() bool { return r.status(s).Err != nil })
	down.Store(false)
	r.waitFor(s, 1)
	if st := r.status(s); st.Pending != 0 {
		t.Errorf("got %+v", st)
	}
	stop()
	want(t, "published", names(t, got), "a")
}

// Many rows are sent in several batches, each row once.
func TestManyRows(t *testing.T) {
	t.Parallel()
	r, path := newRig(t), filepath.Join(t.TempDir(), "audit.jsonl")
	var all []string
	for i := range 2*maxBatch + 7 {
		all = append(all, fmt.Sprint("op", i))
	}
	r.add(all...)
	r.checkpoint("signed")
	_, stop := r.start(Config{File: path}, options())
	stop()
	text, err := os.ReadFile(path)
	must(t, err)
	want(t, "rows", names(t, text), append(all, "signed")...)
}

// Rows that a destination does not have are kept, but not more than are kept at most.
func TestRetentionWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.add("a", "b", "c", "d")
	_, err := r.d.OpenAuditSinks(t.Context(), []string{File, Syslog})
	must(t, err, r.d.PutAuditSink(t.Context(), db.AuditSink{Name: File}, db.AuditSink{Name: File, Seq: 4}), r.d.PutAuditSink(t.Context(), db.AuditSink{Name: Syslog}, db.AuditSink{Name: Syslog, Seq: 2}))
	cut := func(rows int64) int64 {
		head, err := r.d.AuditCut(t.Context(), time.Now().Add(time.Hour), rows)
		must(t, err)
		return head.Seq
	}
	if old, most := cut(1<<62), cut(1); old != 2 || most != 3 {
		t.Errorf("deleted up to %d by age and %d by number, want 2 and 3", old, most)
	}
	_, err = r.d.OpenAuditSinks(t.Context(), []string{File})
	must(t, err)
	if got := cut(1 << 62); got != 4 {
		t.Errorf("a destination that is gone keeps the rows after %d", got)
	}
}

// Rows that were deleted before a destination had them are reported.
func TestDeletedRowsAreReported(t *testing.T) {
	t.Parallel()
	r, path := newRig(t), filepath.Join(t.TempDir(), "audit.jsonl")
	r.add("a", "b", "c", "d")
	_, err := r.d.OpenAuditSinks(t.Context(), []string{File})
	must(t, err, r.d.PutAuditSink(t.Context(), db.AuditSink{Name: File}, db.AuditSink{Name: File, Seq: 1}))
	head, err := r.d.AuditCut(t.Context(), time.Time{}, 1)
	must(t, err, r.d.CutAudit(t.Context(), db.AuditCheckpoint{AuditHead: head, Time: time.Now(), Note: "cut"}))
	var log bytes.Buffer
	o := options()
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	_, stop := r.start(Config{File: path}, o)
	stop()
	text, err := os.ReadFile(path)
	must(t, err)
	want(t, "rows", names(t, text), "d", "cut")
	if !strings.Contains(log.String(), "sink=file from=2 to=3") {
		t.Errorf("the log has %s", log.String())
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{File: "/var/log/a.jsonl", Syslog: "tls://h:6514", Webhook: "https://h/x", WebhookToken: "t", MQTTTopic: "$audit/x"}
	must(t, good.Validate(), Config{}.Validate())
	bad := Config{File: "logs/", Syslog: "udp://h:514", Webhook: "https://user@h", MQTTTopic: "a/#"}
	err := bad.Validate()
	for _, key := range []string{"file", "syslog", "webhook", "mqtt_topic"} {
		if err == nil || !strings.Contains(err.Error(), "audit.sinks."+key) {
			t.Errorf("%s is missing in %v", key, err)
		}
	}
	if err := (Config{Syslog: "tcp://h", WebhookToken: "t"}).Validate(); err == nil || strings.Count(err.Error(), "audit.sinks.") < 3 {
		t.Errorf("got %v", err)
	}
}
