package monitor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"

	"signalbox/broker/storage"
)

// maxReaders bounds the connections that read: charts are requested by people.
const maxReaders = 2

// smallWAL is when the WAL is checkpointed, in pages: the file has few pages, and an
// appliance with a small disk has it, too.
const smallWAL = `PRAGMA wal_autocheckpoint = 256`

// store is the file with the history of all brokers.
type store struct {
	file           *storage.File
	opened         os.FileInfo // of the file at its path when it was opened
	writer, reader *sql.DB
}

func openStore(ctx context.Context, path string, log *slog.Logger) (*store, error) {
	file, err := storage.Open(ctx, path, layout(), log)
	if err != nil {
		return nil, err
	}
	// A power failure may cost the last samples; a flush every minute would wear a card.
	s := &store{file: file, writer: file.Writer(storage.Process), reader: file.Readers()}
	s.reader.SetMaxOpenConns(maxReaders)
	if _, err = s.writer.ExecContext(ctx, smallWAL); err == nil {
		s.opened, err = os.Stat(path)
	}
	if err != nil {
		return nil, errors.Join(storage.Explain(path, err), s.close())
	}
	return s, nil
}

// isLost reports whether the file was deleted or replaced since it was opened.
func (s *store) isLost() bool {
	now, err := os.Stat(s.file.Path())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, s.opened)
}

func (s *store) close() error { return errors.Join(s.writer.Close(), s.reader.Close(), s.file.Close()) }

// row is a sample of the finest step; at is the start of its interval, in epoch seconds.
type row struct {
	at int64
	values
}

const insertBroker = `INSERT INTO broker (id) VALUES (?) ON CONFLICT DO NOTHING`

const selectBroker = `SELECT number FROM broker WHERE id = ?`

const insertSample = `
	INSERT OR REPLACE INTO sample (broker, step, slot, at,
		connected, subscriptions, retained, messages_in, messages_out, bytes_in, bytes_out, dropped)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// aggregate computes an interval from those of the finest step: ?1 is the broker, ?2 to ?4
// the step, slot and start of the interval, ?5 the finest step, ?6 the end.
const aggregate = `
	INSERT OR REPLACE INTO sample (broker, step, slot, at,
		connected, subscriptions, retained, messages_in, messages_out, bytes_in, bytes_out, dropped,
		connected_max, subscriptions_max, retained_max, messages_in_max, messages_out_max, bytes_in_max, bytes_out_max, dropped_max)
	SELECT ?1, ?2, ?3, ?4,
		CAST(round(avg(connected)) AS INTEGER), CAST(round(avg(subscriptions)) AS INTEGER), CAST(round(avg(retained)) AS INTEGER),
		CAST(round(avg(messages_in)) AS INTEGER), CAST(round(avg(messages_out)) AS INTEGER),
		CAST(round(avg(bytes_in)) AS INTEGER), CAST(round(avg(bytes_out)) AS INTEGER), CAST(round(avg(dropped)) AS INTEGER),
		max(connected), max(subscriptions), max(retained), max(messages_in), max(messages_out), max(bytes_in), max(bytes_out), max(dropped)
	FROM sample WHERE broker = ?1 AND step = ?5 AND at >= ?4 AND at < ?6`

// write stores samples of brokers, and computes the intervals of the other steps that they
// belong to, in one transaction.
func (s *store) write(ctx context.Context, samples map[string][]row) error {
	return s.file.Transact(ctx, s.writer, func(tx *sql.Tx) error {
		for id, rows := range samples {
			if err := writeBroker(ctx, tx, id, rows); err != nil {
				return fmt.Errorf("store the metrics of broker %s: %w", id, err)
			}
		}
		return nil
	}, nil)
}

func writeBroker(ctx context.Context, tx *sql.Tx, id string, rows []row) error {
	if _, err := tx.ExecContext(ctx, insertBroker, id); err != nil {
		return err
	}
	var broker int64
	if err := tx.QueryRowContext(ctx, selectBroker, id).Scan(&broker); err != nil {
		return err
	}
	for _, r := range rows {
		args := []any{broker, finest.seconds(), finest.slot(r.at), r.at}
		for _, v := range r.values {
			args = append(args, thousandths(v))
		}
		if _, err := tx.ExecContext(ctx, insertSample, args...); err != nil {
			return err
		}
	}
	for _, step := range steps[1:] {
		for begin := range intervals(step, rows) {
			_, err := tx.ExecContext(ctx, aggregate, broker, step.seconds(), step.slot(begin), begin, finest.seconds(), begin+step.seconds())
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// intervals returns the starts of the intervals of a step that samples belong to.
func intervals(step Step, rows []row) map[int64]struct{} {
	all := map[int64]struct{}{}
	for _, r := range rows {
		all[step.begin(r.at)] = struct{}{}
	}
	return all
}

// thousandths returns a value as it is stored: as an integer, which takes fewer bytes.
func thousandths(v float64) sql.NullInt64 {
	return sql.NullInt64{Int64: int64(math.Round(v * 1000)), Valid: isKnown(v)}
}

// storedInterval is an interval with the means and the highest values.
type storedInterval struct {
	at        int64
	mean, max values
}

const selectSamples = `
	SELECT at, connected, subscriptions, retained, messages_in, messages_out, bytes_in, bytes_out, dropped,
		connected_max, subscriptions_max, retained_max, messages_in_max, messages_out_max, bytes_in_max, bytes_out_max, dropped_max
	FROM sample JOIN broker ON number = broker
	WHERE id = ? AND step = ? AND at >= ? AND at < ?`

// read calls yield with the stored intervals of a step that start in a range of time, in no
// order.
func (s *store) read(ctx context.Context, id string, step Step, from, to int64, yield func(storedInterval)) error {
	rows, err := s.reader.QueryContext(ctx, selectSamples, id, step.seconds(), from, to)
	if err != nil {
		return err
	}
	defer rows.Close()
	var stored [2 * metricCount]sql.NullInt64
	var i storedInterval
	targets := []any{&i.at}
	for n := range stored {
		targets = append(targets, &stored[n])
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		for n := range metricCount {
			i.mean[n], i.max[n] = fromThousandths(stored[n]), fromThousandths(stored[metricCount+n])
		}
		yield(i)
	}
	return rows.Err()
}

func fromThousandths(n sql.NullInt64) float64 {
	if !n.Valid {
		return math.NaN()
	}
	return float64(n.Int64) / 1000
}

// forget deletes the history of a broker.
func (s *store) forget(ctx context.Context, id string) error {
	return s.file.Transact(ctx, s.writer, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM broker WHERE id = ?`, id)
		return err
	}, nil)
}

// brokers returns the ids of the brokers with a history.
func (s *store) brokers(ctx context.Context) (ids []string, err error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT id FROM broker`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
