package sql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"signalbox/broker/bridges/target"
)

// statementTime returns how long the server may work on one statement of a batch with the given
// timeout. It is shorter than the timeout, so that the server ends the statement and responds
// before the connection is closed. 0 means no limit.
func statementTime(batch time.Duration) time.Duration { return batch / 4 * 3 }

// errUnknownVariable is MySQL's error number for a variable that the server does not have.
const errUnknownVariable = 1193

// setTimeouts sets the server's timeouts to d, unless they are already lower. MariaDB has a
// timeout for all statements, MySQL for SELECT only; both limit the wait for locks.
func (s *mySQLSession) setTimeouts(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	seconds := max(1, int(d.Seconds()))
	for _, set := range []string{
		fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, %d)", seconds),
		fmt.Sprintf("SET SESSION lock_wait_timeout = LEAST(@@lock_wait_timeout, %d)", seconds),
		fmt.Sprintf("SET SESSION max_statement_time = IF(@@max_statement_time > 0, LEAST(@@max_statement_time, %[1]f), %[1]f)", d.Seconds()),
	} {
		_, err := s.conn.ExecContext(ctx, set)
		if dbErr, ok := errors.AsType[*mysql.MySQLError](err); ok && dbErr.Number == errUnknownVariable {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setTimeouts sets the server's timeouts to d, unless they are already lower.
func (s *postgresSession) setTimeouts(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	const set = `
		SELECT set_config(name, $1, false) FROM pg_catalog.pg_settings
		WHERE name IN ('statement_timeout', 'lock_timeout') AND setting::bigint NOT BETWEEN 1 AND $1::bigint`
	_, err := s.query(ctx, set, strconv.FormatInt(max(1, d.Milliseconds()), 10))
	return err
}

// abandoned is a session that was closed before its statement had ended: the server may still be
// working on it. The client address, as the server sees it, distinguishes it from a later session
// with the same id.
type abandoned struct {
	id      uint64
	address string
}

// identify reads the server's id and address of the session.
func (s *mySQLSession) identify(ctx context.Context) error {
	const own = `SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()`
	return s.conn.QueryRowContext(ctx, own).Scan(&s.self.id, &s.self.address)
}

// abandoned returns the session if it ended without a response to a statement.
func (s *mySQLSession) abandoned() *abandoned {
	if !s.unanswered {
		return nil
	}
	return &s.self
}

// noteResponse records whether the server responded.
func (s *mySQLSession) noteResponse(err error) error {
	if _, ok := errors.AsType[*mysql.MySQLError](err); err != nil && !ok {
		s.unanswered = true
	}
	return err
}

// endPollInterval is the interval of polling whether a session has ended.
const endPollInterval = 20 * time.Millisecond

// end ends an abandoned session, which rolls back its open transaction, and returns once the
// server has no such session any more.
func (s *mySQLSession) end(ctx context.Context, a abandoned) error {
	const find = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND HOST = ?`
	poll := time.NewTicker(endPollInterval)
	defer poll.Stop()
	for {
		var n int
		if err := s.conn.QueryRowContext(ctx, find, a.id, a.address).Scan(&n); err != nil || n == 0 {
			return err
		}
		s.conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", a.id)) //nolint:errcheck // it may have ended meanwhile
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

// abandoned returns nil: the library sends a cancel request for an abandoned statement, and close
// waits for it.
func (s *postgresSession) abandoned() *abandoned { return nil }

func (s *postgresSession) end(context.Context, abandoned) error { return nil }

// endAbandoned ends the session that an earlier connection may have left at the server. It must
// succeed before anything is inserted, which would otherwise be inserted twice.
func (c *connector) endAbandoned(ctx context.Context, s session) error {
	if c.leftover == nil {
		return nil
	}
	if err := s.end(ctx, *c.leftover); err != nil {
		_, why := s.classifyError(err, nil)
		return target.Explain(err, "end the abandoned statement: "+why)
	}
	c.leftover = nil
	return nil
}
