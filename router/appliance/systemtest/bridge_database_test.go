package systemtest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"signalbox/broker/bridges/peertest"
)

// sample polls a peer for the number of its messages.
type sample struct {
	mu sync.Mutex // guards the fields below
	at time.Time
	n  int
}

// get returns the last value, or asks for a new one.
func (s *sample) get(ask func() int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > 20*time.Millisecond {
		s.n = ask()
		s.at = time.Now()
	}
	return s.n
}

// keep keeps the last value for a duration.
func (s *sample) keep(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Now().Add(d)
}

// databasePeer is a database with a row per message. It accepts no duplicates.
type databasePeer struct {
	*peertest.Database
	sample sample
}

func newPostgresPeer(t testing.TB, _ endpoint) peer {
	t.Helper()
	return newDatabasePeer(t, peertest.StartPostgres(t, peertest.Durable()), "bigserial")
}

func newMariaDBPeer(t testing.TB, _ endpoint) peer {
	t.Helper()
	return newDatabasePeer(t, peertest.StartMariaDB(t, peertest.Durable()), "bigint auto_increment")
}

func newDatabasePeer(t testing.TB, d *peertest.Database, serial string) peer {
	t.Helper()
	d.Exec(t, fmt.Sprintf(`CREATE TABLE messages (seq %s PRIMARY KEY, message_id varchar(200) UNIQUE,
		topic varchar(200) NOT NULL, n integer NOT NULL, attempt integer NOT NULL)`, serial))
	return &databasePeer{Database: d}
}

func (p *databasePeer) bridge() (string, object) {
	return "sql-bridge", connectTo(object{"driver": p.Driver, "hostname": p.Host, "port": p.Port, "database": p.Name,
		"credentials": object{"username": p.Username, "password": p.Password}}, object{},
		object{"target": "messages", "onConflict": "ignore"}, numbers("message_id"))
}

func (p *databasePeer) start(t testing.TB) {
	t.Helper()
	p.Start(t)
	p.sample.keep(0)
}

func (p *databasePeer) stop(t testing.TB) {
	t.Helper()
	p.sample.keep(time.Hour)
	p.Stop(t)
}

func (p *databasePeer) count(t testing.TB) int {
	t.Helper()
	return p.sample.get(func() int { return number(t, p.Column(t, "SELECT count(seq) FROM messages")[0]) })
}

func (p *databasePeer) all(t testing.TB) (list []arrival) {
	t.Helper()
	for _, row := range p.Query(t, "SELECT topic, n, attempt, message_id FROM messages ORDER BY seq") {
		list = append(list, arrival{Topic: row[0], N: number(t, row[1]), Attempt: number(t, row[2]), ID: row[3]})
	}
	return list
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// influxPeer is an InfluxDB with a point per message.
type influxPeer struct {
	*peertest.InfluxDB
	sample sample
}

func newInfluxPeer(t testing.TB, _ endpoint) peer {
	t.Helper()
	return &influxPeer{InfluxDB: peertest.StartInfluxDB(t)}
}

func (p *influxPeer) bridge() (string, object) {
	return "influxdb-bridge", connectTo(object{"version": 1, "url": p.URL, "database": p.Database,
		"credentials": object{"username": p.Username, "password": p.Password}}, object{},
		object{"target": "messages", "tags": object{"source": "${topic}"}}, numbers("id"))
}

func (p *influxPeer) start(t testing.TB) {
	t.Helper()
	p.Start(t)
	p.sample.keep(0)
}

func (p *influxPeer) stop(t testing.TB) {
	t.Helper()
	p.sample.keep(time.Hour)
	p.Stop(t)
}

func (p *influxPeer) count(t testing.TB) int {
	t.Helper()
	return p.sample.get(func() int {
		rows := p.Query(t, "SELECT count(n) FROM messages")
		if len(rows) == 0 {
			return 0
		}
		return toInt(t, rows[0][1])
	})
}

func (p *influxPeer) all(t testing.TB) (list []arrival) {
	t.Helper()
	for _, row := range p.Query(t, "SELECT topic, n, attempt, id FROM messages") {
		list = append(list, arrival{Topic: row[1].(string), N: toInt(t, row[2]), Attempt: toInt(t, row[3]), ID: row[4].(string)})
	}
	return list
}

// toInt converts a JSON number.
func toInt(t testing.TB, v any) int {
	t.Helper()
	return number(t, fmt.Sprint(v))
}
