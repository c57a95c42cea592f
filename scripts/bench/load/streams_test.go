//go:build linux

package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/appliance"
)

// few returns a load of streams short enough for a test.
func few(e Scenario) (l Load, messages, delivered int) {
	const each = 500
	switch l := e.Load.(type) {
	case Replayed:
		l.Stored = each
		return l, 2 * each, 2 * each
	case Streamed:
		l.Streams = l.Streams[:min(len(l.Streams), 60)]
		l.Publishers = min(l.Publishers, 10) // each authenticates, which takes a while
		return l, each * l.Publishers, each * l.Publishers
	case Flow:
		return l, each * l.Publishers, each * l.Publishers
	}
	return e.Load, 0, 0
}

// TestStreams_with_the_product plays every load of streams twice.
func TestStreams_with_the_product(t *testing.T) {
	t.Parallel()
	target := startProduct(t)
	for _, e := range Streams() {
		t.Run(e.Name, func(t *testing.T) {
			l, messages, delivered := few(e)
			s, err := l.Open(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				pass, err := s.Play(t.Context(), messages)
				if err != nil || pass.Delivered+pass.Dropped != delivered || pass.Took <= 0 {
					t.Errorf("got %d messages in %v, %d dropped, %v; want %d", pass.Delivered, pass.Took, pass.Dropped, err, delivered)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	err := withControlClient(t.Context(), target, "test", func(d *controlClient) error { _, err := d.state(Republished); return err })
	if !errors.Is(err, errRefused) {
		t.Errorf("got %v of a stream whose load is closed, want %v", err, errRefused)
	}
}

// TestStreamed_reports_lost_messages checks that a load fails if its stream loses messages, or
// stores other messages than it reports.
func TestStreamed_reports_lost_messages(t *testing.T) {
	t.Parallel()
	target := startProduct(t)
	l := republish("complains", false, `{"select":[{"source":"[nothing]","target":"[nothing]"}]}`)
	s, err := l.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	pass, err := s.Play(t.Context(), 100)
	if !errors.Is(err, errWrong) || pass.Delivered != 0 || pass.Dropped != 100 {
		t.Errorf("got %d messages and %v through a stream that lets nothing through, want none and %v", pass.Delivered, err, errWrong)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, err = persist("forgets", 1).Open(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Play(t.Context(), 640); err != nil {
		t.Error(err)
	}
	if err := withControlClient(t.Context(), target, "test", func(d *controlClient) error {
		_, err := d.send(command{"command": "clearStreamMessages", "streamname": "forgets"})
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, errWrong) {
		t.Errorf("got %v from a stream whose messages are gone, want %v", err, errWrong)
	}
}

// startProduct starts the product in this process, and returns its administrator.
func startProduct(t *testing.T) Target {
	t.Helper()
	target := Target{Username: "admin", Password: "a long enough password"}
	c := appliance.DefaultConfig()
	c.DataDir, c.HTTP.Listen, c.Broker.Listen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	c.Broker.AdminUsername, c.Broker.AdminPassword = target.Username, broker.Secret(target.Password)
	a, err := appliance.Start(t.Context(), c, appliance.Program{Version: "test"}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	var greeting bytes.Buffer
	a.Greet(&greeting, false)
	_, rest, _ := strings.Cut(greeting.String(), "mqtt://")
	target.Addr = strings.Fields(rest)[0]
	return target
}

func TestReadStamp(t *testing.T) {
	t.Parallel()
	for _, json := range []bool{false, true} {
		want := stamp{publisher: 3, seq: 12345, sent: 17 * time.Second}
		b := want.append(nil, json)
		if got, ok := readStamp(b, 4, json); got != want || !ok {
			t.Errorf("json %t: got %v and %t from %q, want %v", json, got, ok, b, want)
		}
		if got, ok := readStamp(b, 3, json); ok {
			t.Errorf("json %t: got %v of a publisher that is not there", json, got)
		}
		if got, ok := readStamp(b[:20], 4, json); ok {
			t.Errorf("json %t: got %v from what is cut short", json, got)
		}
	}
	if b := (stamp{publisher: 3, seq: 123456, sent: time.Minute}).append(nil, true); len(b) < 140 || len(b) > 160 {
		t.Errorf("got %d bytes of JSON, want about 150: %s", len(b), b)
	}
}

// TestGauge checks that a gauge admits no more than its bound until there is progress.
func TestGauge(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancelCause(t.Context())
	end(errStuck)
	g := newGauge(10)
	for range 2 {
		if err := g.enter(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.enter(ended, 1); !errors.Is(err, errStuck) {
		t.Errorf("got %v from a full gauge, want %v", err, errStuck)
	}
	g.update(4)
	if err := g.enter(t.Context(), 4); err != nil || g.passed() != 4 {
		t.Errorf("got %v, and %d have passed, want 4", err, g.passed())
	}
	if err := g.rest(ended); !errors.Is(err, errStuck) {
		t.Errorf("got %v while 10 are on their way, want %v", err, errStuck)
	}
	g.update(14)
	if err := g.rest(t.Context()); err != nil {
		t.Error(err)
	}
	var none *gauge
	if err := none.enter(ended, 1); err != nil || none.passed() != 0 {
		t.Errorf("no gauge: got %v and %d, want neither", err, none.passed())
	}
}

// FuzzReadJSON reads any payload, and those of appendJSON.
func FuzzReadJSON(f *testing.F) {
	f.Add([]byte(`{"machine":{"publisher":1},"number":22,"data":{"speedmax":7}}`))
	f.Add([]byte(`"publisher":9223372036854775808,"number":1,`))
	f.Add(packet.AppendEmpty(nil, packet.Pingreq))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := readJSON(b, 10); ok && (s.publisher < 0 || s.publisher >= 10) {
			t.Errorf("got %v from %q", s, b)
		}
	})
}
