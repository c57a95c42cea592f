package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"signalbox/broker/bridges/target"
)

// mySQLSession is a session with MySQL or MariaDB.
type mySQLSession struct {
	pool         *stdsql.DB // with one connection
	conn         *stdsql.Conn
	maxStatement int // maximum length of a statement

	self       abandoned // the server's identification of the session
	unanswered bool      // the response to a statement did not arrive
}

// openMySQL opens a session.
func openMySQL(ctx context.Context, e *endpoint) (session, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", e.address(), e.database
	config.DialFunc = e.dial
	config.User, config.Passwd, config.TLS = e.username, e.password, e.tls
	config.AllowCleartextPasswords = e.tls != nil && !e.tls.InsecureSkipVerify // only the verified server may see the password
	config.InterpolateParams = true                                            // a batch is one statement and one round trip
	config.MaxAllowedPacket = 0                                                // take the server's limit
	config.ConnectionAttributes = "program_name:signalbox"
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, connectError(e, err)
	}
	s := &mySQLSession{pool: stdsql.OpenDB(connector)}
	if s.conn, err = s.pool.Conn(ctx); err != nil {
		s.pool.Close() //nolint:errcheck // it has nothing open
		return nil, mySQLConnectError(e, err)
	}
	if err := s.configure(ctx, e.timeout); err != nil {
		s.close(ctx) //nolint:errcheck // the first error is returned
		return nil, err
	}
	return s, nil
}

// configure sets strict mode and the timeouts, and reads the server's limits.
func (s *mySQLSession) configure(ctx context.Context, timeout time.Duration) error {
	const (
		strict = `SET autocommit = 1, time_zone = '+00:00', sql_mode = CONCAT_WS(',', NULLIF(@@sql_mode, ''), 'STRICT_ALL_TABLES')`
		limits = `SELECT @@max_allowed_packet`
	)
	_, err := s.conn.ExecContext(ctx, strict)
	if err == nil {
		err = s.conn.QueryRowContext(ctx, limits).Scan(&s.maxStatement)
	}
	if err == nil {
		err = s.setTimeouts(ctx, statementTime(timeout))
	}
	if err == nil {
		err = s.identify(ctx)
	}
	if err != nil {
		_, why := s.classifyError(err, nil)
		return target.Explain(err, why)
	}
	return nil
}

// readTableSchema reads a table's schema.
func (s *mySQLSession) readTableSchema(ctx context.Context, t table) (*tableSchema, error) {
	found := &tableSchema{ignoresCase: true}
	var err error
	if found.columns, err = s.columns(ctx, t); err != nil || len(found.columns) == 0 {
		return nil, err
	}
	found.problem, err = s.tableProblem(ctx, t)
	return found, err
}

// columns reads the columns of a table.
func (s *mySQLSession) columns(ctx context.Context, t table) (all []column, err error) {
	const columns = `
		SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE = 'NO' AND COLUMN_DEFAULT IS NULL, EXTRA, PRIVILEGES
		FROM information_schema.COLUMNS
		WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?
		ORDER BY ORDINAL_POSITION`
	rows, err := s.conn.QueryContext(ctx, columns, t.schema, t.name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c column
		var typ, extra, privileges string
		if err := rows.Scan(&c.name, &typ, &c.typ, &c.required, &extra, &privileges); err != nil {
			return nil, err
		}
		extra = strings.ToLower(extra)
		c.kind = mySQLKind(strings.ToLower(typ), strings.ToLower(c.typ))
		c.generated = strings.Contains(extra, "stored generated") || strings.Contains(extra, "virtual generated")
		c.required = c.required && !c.generated && !strings.Contains(extra, "auto_increment") && !strings.Contains(extra, "default_generated")
		c.denied = !strings.Contains(strings.ToLower(privileges), "insert")
		all = append(all, c)
	}
	return all, rows.Err()
}

// tableProblem returns why rows cannot be inserted into a table. A table without transactions would
// keep a part of a failed batch.
func (s *mySQLSession) tableProblem(ctx context.Context, t table) (string, error) {
	const engine = `
		SELECT t.ENGINE, e.TRANSACTIONS
		FROM information_schema.TABLES t
		JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
		WHERE t.TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND t.TABLE_NAME = ?`
	var name string
	var transactions stdsql.NullString
	err := s.conn.QueryRowContext(ctx, engine, t.schema, t.name).Scan(&name, &transactions)
	if errors.Is(err, stdsql.ErrNoRows) { // a view
		return "", nil
	}
	if err == nil && transactions.String == "NO" {
		return fmt.Sprintf("has the engine %s, which knows no transactions: give it the engine InnoDB", name), nil
	}
	return "", err
}

// mySQLKind returns the kind of a type.
func mySQLKind(typ, full string) kind {
	switch typ {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year":
		if strings.HasPrefix(full, "tinyint(1)") {
			return kindBoolean
		}
		return kindInteger
	case "decimal", "float", "double":
		return kindNumber
	case "date", "datetime", "timestamp", "time":
		return kindTime
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return kindBytes
	case "json":
		return kindJSON
	case "bit":
		return kindBits
	}
	return kindText
}

// insert sends a statement for each group. A single statement needs no explicit transaction.
func (s *mySQLSession) insert(ctx context.Context, groups []group) error {
	statements, err := s.statements(groups)
	if err != nil {
		return err
	}
	if len(statements) == 1 {
		return s.noteResponse(statements[0].exec(ctx, s.conn))
	}
	return s.noteResponse(s.insertTogether(ctx, statements))
}

// insertTogether executes statements in one transaction.
func (s *mySQLSession) insertTogether(ctx context.Context, statements []statement) error {
	tx, err := s.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // committed, or given up
	for _, st := range statements {
		if err := st.exec(ctx, tx); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// statement is an SQL statement with its values.
type statement struct {
	text   string
	values []any
}

func (s statement) exec(ctx context.Context, on interface {
	ExecContext(ctx context.Context, query string, args ...any) (stdsql.Result, error)
},
) error {
	_, err := on.ExecContext(ctx, s.text, s.values...)
	return err
}

var errRowTooLong = errors.New("a row is longer than the database accepts")

// statements builds one statement for each group, and several where one would exceed the server's
// limit.
func (s *mySQLSession) statements(groups []group) (all []statement, err error) {
	for _, g := range groups {
		for rows := g.rows; len(rows) > 0; {
			n := s.rowsThatFit(rows)
			if n == 0 {
				return nil, errRowTooLong
			}
			values := make([]any, 0, n*len(g.plan.columns))
			for _, r := range rows[:n] {
				for _, v := range r {
					values = append(values, mySQLValue(v))
				}
			}
			all = append(all, statement{g.plan.mySQLInsert(n), values})
			rows = rows[n:]
		}
	}
	return all, nil
}

// Size of a statement without its values, and of the separators and quotes of each value, in
// bytes.
const (
	statementOverhead = 8 << 10
	valueOverhead     = 40
)

// rowsThatFit returns how many of the rows fit into one statement. A quoted byte may take two; a
// single row is sent even if only its unquoted size fits.
func (s *mySQLSession) rowsThatFit(rows [][]any) int {
	size := statementOverhead
	for i, r := range rows {
		raw := 0
		for _, v := range r {
			raw += valueSize(v)
		}
		size += 2*raw + valueOverhead*len(r)
		switch {
		case raw+statementOverhead > s.maxStatement:
			return i
		case size > s.maxStatement:
			return max(i, 1)
		}
	}
	return len(rows)
}

func valueSize(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 0
}

// mySQLInsert returns the statement that inserts the given number of rows. A row that exists already
// is updated to its own values, because IGNORE would also accept invalid values.
func (p *plan) mySQLInsert(rows int) string {
	if p.statement == "" {
		names := make([]string, len(p.columns))
		for i, c := range p.columns {
			names[i] = backQuoted(c.name)
		}
		p.statement = fmt.Sprintf("INSERT INTO %s (%s) VALUES ", p.table.quoted(backQuoted), strings.Join(names, ", "))
	}
	marks := "(" + strings.Join(slices.Repeat([]string{"?"}, len(p.columns)), ",") + ")"
	text := p.statement + strings.Repeat(marks+",", rows-1) + marks
	if p.ignore {
		first := backQuoted(p.columns[0].name)
		text += " ON DUPLICATE KEY UPDATE " + first + " = " + first
	}
	return text
}

// mySQLValue converts a value for the driver.
func mySQLValue(v any) any {
	if t, ok := v.(time.Time); ok {
		return t.UTC().Format("2006-01-02 15:04:05.999999")
	}
	return v
}

func (s *mySQLSession) ping(ctx context.Context) error { return s.conn.PingContext(ctx) }

// close closes the session. The driver does not wait.
func (s *mySQLSession) close(context.Context) error {
	return errors.Join(s.conn.Close(), s.pool.Close())
}
