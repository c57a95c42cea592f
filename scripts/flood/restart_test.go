package flood

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to read the file without the service

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// The variables of the restart: how many retained messages, and how many sessions
// with queued messages.
const (
	retainedVariable = "SIGNALBOX_FLOOD_RETAINED"
	sessionsVariable = "SIGNALBOX_FLOOD_SESSIONS"
)

const (
	queuedEach = 10 // messages queued in each session
	workers    = 32 // clients at a time
)

// slowerThanRead is how many times longer than reading the rows a start may take, in
// addition to the time of an empty one.
const slowerThanRead = 10

// TestCampaignRestartAtSize kills the service when it stores much, and compares its
// next start with reading the same rows alone. Nothing is lost.
func TestCampaignRestartAtSize(t *testing.T) {
	retained, sessions := suite.FromEnvironment(t, retainedVariable, 20_000), suite.FromEnvironment(t, sessionsVariable, 2_000)
	config := configure(t, "  write_timeout: 1m\n")
	began := time.Now()
	s := serve(t, config)
	empty := time.Since(began)
	createUsers(t, s)
	everySession(t, sessions, func(n int) error { return createSession(t.Context(), s, n) })
	keepRetained(t, s, retained)
	fillQueues(t, s)
	s.Kill()
	bare := readRows(t, filepath.Join(filepath.Dir(config), "data"))

	began = time.Now()
	s = serve(t, config)
	took := time.Since(began)
	t.Logf("%d retained messages, %d sessions of %d: serving after %v; empty %v, bare rows %v",
		retained, sessions, queuedEach, took, empty, bare)
	if took > 2*empty+slowerThanRead*bare {
		t.Errorf("serving after %v; an empty start took %v, reading the bare rows %v", took, empty, bare)
	}
	wantRetained(t, s, retained)
	everySession(t, sessions, func(n int) error { return receiveQueue(t.Context(), s, n) })
}

// everySession calls do for each session, several concurrently.
func everySession(t *testing.T, sessions int, do func(n int) error) {
	t.Helper()
	errs := make([]error, workers)
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for n := w; n < sessions && errs[w] == nil; n += workers {
				if err := do(n); err != nil {
					errs[w] = fmt.Errorf("session %d: %w", n, err)
				}
			}
		})
	}
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func queueOwner(n int) packet.Login {
	as := withClientID(attackUser, fmt.Sprint("owner-", n))
	as.Clean = false
	return as
}

// createSession creates a session in which messages will be queued.
func createSession(ctx context.Context, s *server, n int) error {
	l, err := dial(ctx, s.MQTT, sharedAddress(n))
	if err != nil {
		return err
	}
	defer l.Close()
	return errors.Join(l.logIn(queueOwner(n)), l.subscribe("attacker/queued", 1))
}

// receiveQueue connects again and receives what is queued, in order, and nothing more.
func receiveQueue(ctx context.Context, s *server, n int) error {
	l, err := dial(ctx, s.MQTT, sharedAddress(n))
	if err != nil {
		return err
	}
	defer l.Close()
	l.SetDeadline(time.Now().Add(suite.HangLimit)) //nolint:errcheck // reading reports it
	if err := l.logIn(queueOwner(n)); err != nil {
		return err
	}
	for want := range queuedEach {
		body, err := l.want(packet.Publish)
		if err != nil {
			return fmt.Errorf("message %d: %w", want, err)
		}
		m, _ := packet.ReadPublish(packet.Publish|2, body)
		if string(m.Payload) != strconv.Itoa(want) {
			return fmt.Errorf("message %d is %q", want, m.Payload)
		}
		if _, err := l.Write(packet.AppendAck(nil, packet.Puback, m.ID)); err != nil {
			return err
		}
	}
	return l.wantNothingQueued()
}

// wantNothingQueued expects the response to a PINGREQ, and nothing before it.
func (l *link) wantNothingQueued() error {
	if _, err := l.Write(packet.AppendEmpty(nil, packet.Pingreq)); err != nil {
		return err
	}
	first, _, err := l.r.Next()
	if err == nil && first != packet.Pingresp {
		err = fmt.Errorf("one more packet of type %#x", first)
	}
	return err
}

// publisher logs in a client that publishes at QoS 1.
func publisher(t *testing.T, s *server) *link {
	t.Helper()
	l, err := dial(t.Context(), s.MQTT, legitimateAddress)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	l.SetDeadline(time.Now().Add(2 * suite.HangLimit)) //nolint:errcheck // reading reports it
	if err := l.logIn(withClientID(attackUser, "publisher")); err != nil {
		t.Fatal(err)
	}
	return l
}

// publish sends messages and waits until the last of them is acknowledged, which
// it is after all others [MQTT-4.6.0-2].
func (l *link) publish(t *testing.T, n int, message func(i int) packet.Message) {
	t.Helper()
	const together = 1000
	for i := 0; i < n; {
		var p []byte
		sent := 0
		for ; i < n && sent < together; sent, i = sent+1, i+1 {
			m := message(i)
			m.QoS, m.ID = 1, l.next()
			p = packet.AppendPublish(p, m)
		}
		if _, err := l.Write(p); err != nil {
			t.Fatal(err)
		}
		for range sent {
			if _, err := l.want(packet.Puback); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func keepRetained(t *testing.T, s *server, n int) {
	t.Helper()
	publisher(t, s).publish(t, n, func(i int) packet.Message {
		return packet.Message{Topic: fmt.Appendf(nil, "attacker/retained/%d/%d", i%100, i), Payload: make([]byte, 64), Retain: true}
	})
}

func fillQueues(t *testing.T, s *server) {
	t.Helper()
	publisher(t, s).publish(t, queuedEach, func(i int) packet.Message {
		return packet.Message{Topic: []byte("attacker/queued"), Payload: []byte(strconv.Itoa(i))}
	})
}

// wantRetained expects each retained message once.
func wantRetained(t *testing.T, s *server, n int) {
	t.Helper()
	l := publisher(t, s)
	if _, err := l.Write(packet.AppendSubscribe(nil, l.next(), "attacker/retained/#", 0)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < n {
		body, err := l.want(packet.Publish)
		if err != nil {
			t.Fatalf("after %d of %d retained messages: %v", len(seen), n, err)
		}
		m, _ := packet.ReadPublish(packet.Publish, body)
		if seen[string(m.Topic)] {
			t.Fatalf("%s came twice", m.Topic)
		}
		seen[string(m.Topic)] = true
	}
	if err := l.wantNothingQueued(); err != nil {
		t.Error(err)
	}
}

// readRows returns how long it takes to read every row of a copy of the broker's
// file.
func readRows(t *testing.T, data string) time.Duration {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"broker.db", "broker.db-wal"} { // the socket of a killed service cannot be copied
		text, err := os.ReadFile(filepath.Join(data, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	db, err := sql.Open("sqlite", filepath.Join(dir, "broker.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for table, columns := range tables(t, db) {
		if err := readAll(db, "SELECT "+columns+" FROM "+table); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}

// tables returns the columns of every table.
func tables(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT m.name, group_concat('"' || c.name || '"')
		FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' GROUP BY m.name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var table, columns string
		if err := rows.Scan(&table, &columns); err != nil {
			t.Fatal(err)
		}
		all[`"`+table+`"`] = columns
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func readAll(db *sql.DB, query string) error {
	rows, err := db.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	into := make([]any, strings.Count(query, `"`)/2-1)
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
	}
	return rows.Err()
}
