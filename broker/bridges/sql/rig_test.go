package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/bridges/peertest"
	"signalbox/broker/messaging"
)

// servers are the servers that the tests run with.
var servers = map[string]func(testing.TB, ...peertest.Option) *peertest.Database{
	"PostgreSQL": peertest.StartPostgres, "MariaDB": peertest.StartMariaDB,
}

// test is a test at a server that other tests use at the same time.
type test = func(t *testing.T, d *peertest.Database)

// serverTests are the tests that apply to one of the databases only.
var serverTests = map[string]map[string]test{
	"PostgreSQL": {
		"a policy for rows":                       testPolicy,
		"a database that is read-only":            testReadOnly, // at MariaDB a user with all privileges may still write
		"a constraint that is checked at the end": testDeferred,
		"a NULL that is refused elsewhere":        testNullElsewhere, // MariaDB does not name the column
		"a statement that is cancelled by name":   testCancelByName,  // at MariaDB another session ends the statement
		"a sequence at its end":                   testSequence,      // MariaDB reports a duplicate number
	},
	"MariaDB": {"a table without transactions": testNoTransactions},
}

// TestDatabases runs the tests that can share a server at each kind of server.
func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, peertest.TLS())
			for _, tests := range []map[string]test{connections, insertions, outages, timeouts, {"types": testTypes}, serverTests[name]} {
				for name, test := range tests {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t, d)
					})
				}
			}
		})
	}
}

// rig is the connection of a bridge to a database.
type rig struct {
	t    testing.TB
	d    *peertest.Database
	last uint64

	timeout  time.Duration // for a batch; 0 for no limit at the server
	dial     bridges.Dial  // nil for the default
	server   map[string]any
	mappings []map[string]any
	records  map[string]*mapping.Mapping
}

// newRig returns a rig without topic mappings.
func newRig(t testing.TB, d *peertest.Database) *rig {
	t.Helper()
	return &rig{t: t, d: d, records: map[string]*mapping.Mapping{}, server: map[string]any{
		"driver": d.Driver, "hostname": d.Host, "port": d.Port, "database": d.Name,
		"credentials": map[string]any{"username": d.Username, "password": d.Password},
	}}
}

// into adds a topic mapping with a field for each pair of source and target.
func (r *rig) into(name, target, onConflict string, pairs ...string) *rig {
	r.t.Helper()
	spec := mapping.Spec{Name: name}
	for i := 0; i+1 < len(pairs); i += 2 {
		spec.Mapping = append(spec.Mapping, mapping.FieldSpec{Source: pairs[i], Target: pairs[i+1]})
	}
	m, problems := mapping.Compile(spec)
	if len(problems) > 0 {
		r.t.Fatalf("schema mapping: %v", problems)
	}
	r.records[name] = m
	r.mappings = append(r.mappings, map[string]any{"name": name, "mqttTopics": []string{"#"}, "target": target, "schemaMapping": name, "onConflict": onConflict})
	return r
}

// compile creates the connector.
func (r *rig) compile() (*connector, bridges.Problems) {
	r.t.Helper()
	document, err := json.Marshal(map[string]any{"name": "c1", "connection": r.server, "topicMappings": r.mappings})
	if err != nil {
		r.t.Fatal(err)
	}
	made, problems := Kind{}.Compile(&bridges.Connection{Dial: r.dial, Name: "c1", Document: document, Records: r.records, Timeout: r.timeout, Meter: &bridges.Meter{}})
	if len(problems) > 0 {
		return nil, problems
	}
	c, ok := made.(*connector)
	if !ok {
		r.t.Fatalf("the connector is a %T", made)
	}
	r.t.Cleanup(func() { c.Close(context.WithoutCancel(r.t.Context())) })
	return c, nil
}

// connected returns a connector with a connection.
func (r *rig) connected() *connector {
	r.t.Helper()
	c, problems := r.compile()
	if len(problems) > 0 {
		r.t.Fatalf("compile: %v", problems)
	}
	if err := c.Connect(r.t.Context()); err != nil {
		r.t.Fatalf("connect: %v", err)
	}
	return c
}

// refused returns the error text of a connection attempt that must fail.
func (r *rig) refused() string {
	r.t.Helper()
	c, problems := r.compile()
	if len(problems) > 0 {
		r.t.Fatalf("compile: %v", problems)
	}
	err := c.Connect(r.t.Context())
	if err == nil {
		r.t.Fatal("there is a connection")
	}
	return err.Error()
}

// entry creates an entry of a topic mapping.
func (r *rig) entry(mapping, payload string) *bridges.Entry {
	r.last++
	return &bridges.Entry{ID: r.last, Mapping: mapping, MessageID: "m" + strconv.FormatUint(r.last, 10),
		Message: messaging.Message{Topic: "plant/7", Payload: []byte(payload), QoS: 1, At: 1_700_000_000_123, ClientID: "pump"}}
}

// entries creates an entry for each payload.
func (r *rig) entries(mapping string, payloads ...string) (all []*bridges.Entry) {
	for _, p := range payloads {
		all = append(all, r.entry(mapping, p))
	}
	return all
}

// numbered returns payloads {"n":from} to {"n":to}.
func numbered(from, to int) (payloads []string) {
	for n := from; n <= to; n++ {
		payloads = append(payloads, fmt.Sprintf(`{"n":%d}`, n))
	}
	return payloads
}

// deliver delivers a batch, which must not fail as a whole, and returns the results.
func deliver(t testing.TB, c *connector, batch []*bridges.Entry) []bridges.Result {
	t.Helper()
	results := make([]bridges.Result, len(batch))
	if err := c.Deliver(t.Context(), batch, results); err != nil {
		t.Fatalf("deliver: %v", err)
	}
	return results
}

// states returns the states of results.
func states(results []bridges.Result) (all []bridges.State) {
	for _, r := range results {
		all = append(all, r.State)
	}
	return all
}
