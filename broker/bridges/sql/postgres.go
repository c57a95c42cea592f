package sql

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/broker/bridges/target"
	"signalbox/broker/outbound"
)

// postgresSession is a session with PostgreSQL.
type postgresSession struct {
	conn *pgconn.PgConn
}

// openPostgres opens a session. The environment variables of other PostgreSQL clients are
// ignored.
func openPostgres(ctx context.Context, e *endpoint) (session, error) {
	config, err := pgconn.ParseConfig("host=localhost port=5432 user=x password='' dbname=x sslmode=disable passfile='' target_session_attrs=any require_auth=''")
	if err != nil {
		return nil, fmt.Errorf("the settings of PostgreSQL clients in the environment are wrong: %w", errors.Unwrap(err))
	}
	config.Host, config.Port, config.Database = e.host, uint16(e.port), e.database // #nosec G115 -- a port
	config.DialFunc = e.dialHost
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // dial resolves it
	config.User, config.Password = e.username, e.password
	config.TLSConfig, config.Fallbacks, config.ConnectTimeout = e.tls, nil, 0
	if e.tls == nil {
		config.RequireAuth = "!password" // no clear-text password without TLS
	}
	config.RuntimeParams = map[string]string{"application_name": "signalbox", "client_encoding": "UTF8", "timezone": "UTC", "datestyle": "ISO"}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, postgresConnectError(e, err)
	}
	s := &postgresSession{conn: conn}
	err = s.setTimeouts(ctx, statementTime(e.timeout))
	if err != nil {
		_, why := s.classifyError(err, nil)
		err = target.Explain(err, why)
	} else {
		err = s.writable(ctx)
	}
	if err != nil {
		s.close(ctx) //nolint:errcheck // the first error is returned
		return nil, err
	}
	return s, nil
}

// dialHost connects to the host, or to the address of the host that a cancel request is sent to.
// The rule for the host applies to that address too.
func (e *endpoint) dialHost(ctx context.Context, network, address string) (net.Conn, error) {
	if address != e.address() {
		ctx = outbound.FoundFor(ctx, e.host)
	}
	return e.dial(ctx, network, address)
}

var errReadOnly = errors.New("the database accepts no changes at present: it is a standby or read-only; connect to the primary")

// writable returns errReadOnly if the database accepts no changes.
func (s *postgresSession) writable(ctx context.Context) error {
	rows, err := s.query(ctx, "SHOW transaction_read_only")
	if err != nil {
		_, why := s.classifyError(err, nil)
		return target.Explain(err, why)
	}
	if len(rows) == 1 && rows[0][0] == "on" {
		return errReadOnly
	}
	return nil
}

// query returns the rows of a query as text, "" for NULL.
func (s *postgresSession) query(ctx context.Context, query string, args ...string) ([][]string, error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	result := s.conn.ExecParams(ctx, query, values, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, result.Err
	}
	rows := make([][]string, len(result.Rows))
	for i, r := range result.Rows {
		for _, v := range r {
			rows[i] = append(rows[i], string(v))
		}
	}
	return rows, nil
}

// readTableSchema reads a table's schema.
func (s *postgresSession) readTableSchema(ctx context.Context, t table) (*tableSchema, error) {
	const columns = `
		SELECT a.attname, format_type(a.atttypid, -1), t.typcategory,
			CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, -1) ELSE format_type(a.atttypid, -1) END,
			a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
			a.attidentity = 'a' OR a.attgenerated <> '',
			NOT has_column_privilege(a.attrelid, a.attnum, 'INSERT'),
			r.relkind
		FROM pg_catalog.pg_class r
		JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
		JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
		WHERE r.oid = to_regclass($1::text)
		ORDER BY a.attnum`
	rows, err := s.query(ctx, columns, t.quoted(doubleQuoted))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	found := &tableSchema{}
	for _, r := range rows {
		found.columns = append(found.columns, column{
			name: r[0], typ: r[1], kind: postgresKind(r[2], r[3]),
			required: r[4] == "t", generated: r[5] == "t", denied: r[6] == "t",
		})
	}
	if !strings.Contains("rpvf", rows[0][7]) {
		found.problem = "is nothing that rows can be inserted into: name a table"
	}
	return found, nil
}

// postgresKind returns the kind of a type from its category and, for a domain, its base type.
func postgresKind(category, base string) kind {
	switch base {
	case "smallint", "integer", "bigint":
		return kindInteger
	case "bytea":
		return kindBytes
	case "json", "jsonb":
		return kindJSON
	}
	switch category {
	case "A":
		return kindArray
	case "B":
		return kindBoolean
	case "D":
		return kindTime
	case "N":
		return kindNumber
	}
	return kindText
}

// Object ids of text and its array type, which are the same in every database.
const (
	textID      = 25
	textArrayID = 1009
)

// insert sends a statement for each group in one pipeline without an explicit transaction:
// statements with no Sync between them form one.
func (s *postgresSession) insert(ctx context.Context, groups []group) error {
	batch := &pgconn.Batch{}
	for _, g := range groups {
		width := len(g.plan.columns)
		values := make([][]byte, width)
		for i := range values {
			values[i] = textArray(g.rows, i)
		}
		batch.ExecParams(g.plan.postgresInsert(), values, slices.Repeat([]uint32{textArrayID}, width), slices.Repeat([]int16{1}, width), nil)
	}
	return s.conn.ExecBatch(ctx, batch).Close()
}

// postgresInsert returns the statement whose parameters are one text array per column, so that
// its text is the same for any number of rows.
func (p *plan) postgresInsert() string {
	if p.statement == "" {
		names, values, parameters, aliases := make([]string, len(p.columns)), make([]string, len(p.columns)), make([]string, len(p.columns)), make([]string, len(p.columns))
		for i, c := range p.columns {
			n := strconv.Itoa(i + 1)
			names[i], values[i], parameters[i], aliases[i] = doubleQuoted(c.name), "c"+n+"::"+c.typ, "$"+n, "c"+n
		}
		p.statement = fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM unnest(%s) AS rows (%s)", p.table.quoted(doubleQuoted),
			strings.Join(names, ", "), strings.Join(values, ", "), strings.Join(parameters, ", "), strings.Join(aliases, ", "))
		if p.ignore {
			p.statement += " ON CONFLICT DO NOTHING"
		}
	}
	return p.statement
}

// textArray encodes a column of rows in PostgreSQL's binary format of a text array: number of
// dimensions, NULL flag, element type, length, lower bound, and each element with its length
// before it.
func textArray(rows [][]any, column int) []byte {
	head := []uint32{1, 1, textID, uint32(len(rows)), 1} // #nosec G115 -- a batch is not that large
	b := make([]byte, 0, 4*len(head)+24*len(rows))
	for _, n := range head {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, r := range rows {
		at := len(b)
		b = append(b, 0xff, 0xff, 0xff, 0xff) // NULL
		if r[column] == nil {
			continue
		}
		b = appendPostgres(b, r[column])
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4)) // #nosec G115 -- a message is not that large
	}
	return b
}

// appendPostgres appends a value as text that PostgreSQL parses.
func appendPostgres(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(b, v...)
	case []byte:
		return hex.AppendEncode(append(b, `\x`...), v)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case time.Time:
		return v.UTC().AppendFormat(b, "2006-01-02T15:04:05.999999Z")
	}
	return b
}

func (s *postgresSession) ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// closeTimeout is how long closing a connection may take.
const closeTimeout = time.Second

func (s *postgresSession) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	err := s.conn.Close(ctx)
	select {
	case <-s.conn.CleanupDone():
	case <-ctx.Done():
	}
	return err
}
