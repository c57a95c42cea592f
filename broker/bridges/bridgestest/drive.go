package bridgestest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
	"signalbox/scripts/suite"
)

// Patience is how long a test waits for a condition.
const Patience = suite.HangLimit

// Connection returns what a Kind compiles from a connection's part of a document, whose topic
// mappings may refer to these schema mappings.
func Connection(t testing.TB, document string, specs ...mapping.Spec) *bridges.Connection {
	t.Helper()
	c := &bridges.Connection{Name: "c1", Document: json.RawMessage(document), Identity: "broker-1", Owner: "owner-1",
		Records: make(map[string]*mapping.Mapping), Meter: &bridges.Meter{}}
	var d struct {
		TopicMappings []struct{ Name, SchemaMapping string }
	}
	if err := json.Unmarshal(c.Document, &d); err != nil {
		t.Fatalf("the document: %v\n%s", err, document)
	}
	for _, m := range d.TopicMappings {
		c.Records[m.Name] = mapping.Default()
		for _, s := range specs {
			if s.Name != m.SchemaMapping {
				continue
			}
			compiled, problems := mapping.Compile(s)
			if len(problems) > 0 {
				t.Fatalf("schema mapping %s: %v", s.Name, problems)
			}
			c.Records[m.Name] = compiled
		}
	}
	return c
}

// Compile creates a connector, and closes it after the test.
func Compile(t testing.TB, k bridges.Kind, c *bridges.Connection) bridges.Connector {
	t.Helper()
	connector, problems := k.Compile(c)
	if len(problems) > 0 {
		t.Fatalf("compile: %v", problems)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := connector.Close(ctx); err != nil {
			t.Errorf("close the connector: %v", err)
		}
	})
	return connector
}

// Entry returns an entry of the topic mapping "t1".
func Entry(id uint64, topic, payload string) *bridges.Entry {
	return &bridges.Entry{ID: id, Mapping: "t1", MessageID: fmt.Sprintf("store-1-%d", id), Message: messaging.Message{
		Topic: topic, Payload: []byte(payload), QoS: 1, At: 1_700_000_000_000 + int64(id), ClientID: "device"}}
}

// Outcome is the result of Drive.
type Outcome struct {
	Rejected map[uint64]string // reasons by entry ID
	Failures []string          // errors of Connect and Deliver, without repetitions
}

// Drive uses a connector as the engine does, until every entry has a result: it connects,
// delivers batches of at most size entries in order, and retries pending ones. It calls between
// after each batch.
func Drive(t testing.TB, c bridges.Connector, entries []*bridges.Entry, size int, between func(left int)) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	o := Outcome{Rejected: make(map[uint64]string)}
	connected := false
	for len(entries) > 0 {
		if ctx.Err() != nil {
			t.Fatalf("%d entries are not done with in time; failures: %q", len(entries), o.Failures)
		}
		err := error(nil)
		if !connected {
			err = bounded(ctx, Patience, c.Connect)
			connected = err == nil
		}
		if connected {
			n := min(size, len(entries))
			var left []*bridges.Entry
			left, err = o.deliver(ctx, t, c, entries[:n])
			entries = append(left, entries[n:]...)
			if between != nil {
				between(len(entries))
			}
		}
		if err != nil {
			var lost *bridges.Lost
			connected = connected && !errors.As(err, &lost)
			o.fail(err)
			pause(ctx)
		}
	}
	return o
}

func bounded(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// deliver delivers a batch and returns the pending entries.
func (o *Outcome) deliver(ctx context.Context, t testing.TB, c bridges.Connector, batch []*bridges.Entry) (left []*bridges.Entry, err error) {
	t.Helper()
	results := make([]bridges.Result, len(batch))
	err = bounded(ctx, Patience, func(ctx context.Context) error { return c.Deliver(ctx, batch, results) })
	for i, r := range results {
		switch r.State {
		case bridges.Pending:
			left = append(left, batch[i])
		case bridges.Rejected:
			o.Rejected[batch[i].ID] = r.Reason
		case bridges.Delivered, bridges.Skipped:
		}
	}
	if len(left) > 0 && err == nil {
		t.Errorf("%d entries are pending without an error; the first: %q", len(left), results[0].Reason)
		err = errors.New("pending without an error")
	}
	return left, err
}

func (o *Outcome) fail(err error) {
	if n := len(o.Failures); n == 0 || o.Failures[n-1] != err.Error() {
		o.Failures = append(o.Failures, err.Error())
	}
}

// pause waits after a failure, for less time than the engine.
func pause(ctx context.Context) {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Connect connects and returns the error.
func Connect(t testing.TB, c bridges.Connector) error {
	t.Helper()
	return bounded(t.Context(), Patience, c.Connect)
}
