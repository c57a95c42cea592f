package peertest

import (
	"database/sql"
	"net"
	"strconv"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// Database is a PostgreSQL or a MariaDB. Its user has all privileges.
type Database struct {
	Driver   string // "postgresql" or "mariadb"
	Host     string
	Port     int
	Name     string // of the database that exists from the start
	Username string
	Password string
	CA       []byte // PEM of the authority of its certificate; nil without TLS

	*peer
	pool *sql.DB
}

// Names that every database server has from the start.
const (
	username     = "signalbox"
	databaseName = "plant"
)

// choosePort chooses a free port.
func (d *Database) choosePort(t testing.TB) {
	t.Helper()
	host, port, err := net.SplitHostPort(brokertest.FreePort(t, "127.0.0.1"))
	if err != nil {
		t.Fatalf("choose a port: %v", err)
	}
	d.Host = host
	if d.Port, err = strconv.Atoi(port); err != nil {
		t.Fatalf("choose a port: %v", err)
	}
}

// Address returns host and port.
func (d *Database) Address() string { return net.JoinHostPort(d.Host, strconv.Itoa(d.Port)) }

// open opens the pool for Exec and Query.
func (d *Database) open(t testing.TB, driver, dsn string) {
	t.Helper()
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatalf("open %s: %v", d.name, err)
	}
	pool.SetMaxIdleConns(0) // no idle connections, which the end of the server would break
	d.pool = pool
	t.Cleanup(func() { pool.Close() })
}

// Exec executes a statement.
func (d *Database) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := d.pool.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %s: %v", d.name, statement, err)
	}
}

// Query returns the rows of a query as text, "NULL" for NULL.
func (d *Database) Query(t testing.TB, query string, args ...any) [][]string {
	t.Helper()
	rows, err := d.pool.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %s: %v", d.name, query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatalf("%s: %s: %v", d.name, query, err)
	}
	var all [][]string
	for rows.Next() {
		all = append(all, scan(t, rows, len(columns)))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %s: %v", d.name, query, err)
	}
	return all
}

// scan reads a row.
func scan(t testing.TB, rows *sql.Rows, columns int) []string {
	t.Helper()
	values := make([]sql.NullString, columns)
	targets := make([]any, columns)
	for i := range values {
		targets[i] = &values[i]
	}
	if err := rows.Scan(targets...); err != nil {
		t.Fatalf("read a row: %v", err)
	}
	row := make([]string, columns)
	for i, v := range values {
		row[i] = "NULL"
		if v.Valid {
			row[i] = v.String
		}
	}
	return row
}

// Column returns the first column of a query's rows.
func (d *Database) Column(t testing.TB, query string, args ...any) []string {
	t.Helper()
	var all []string
	for _, row := range d.Query(t, query, args...) {
		all = append(all, row[0])
	}
	return all
}

// quote returns an SQL string for a text without backslashes.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
