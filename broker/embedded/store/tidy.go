package store

import (
	"context"
	"fmt"
)

// Free pages of 4 KiB that the file keeps for what comes next, and how many are
// given back at a time: changes that come meanwhile wait for so long.
const (
	sparePages = 4096
	backPages  = 1024
)

// probe finds out whether the file can be written to and grow: it stores
// something of some size, and deletes it again.
func (k *disk) probe(ctx context.Context) error {
	err := k.transact(ctx, func() error {
		if err := k.exec(drain); err != nil {
			return err
		}
		return k.exec(fill, int64(probeBytes))
	})
	if err != nil {
		return err
	}
	return k.transact(ctx, func() error { return k.exec(drain) })
}

// tidy gives back some of the room of what was deleted, beyond what will be
// used again soon, or, when there is none to give back, folds the log into the
// file. It tells whether there is more to do. It waits for no reader: what
// cannot be done now is done when the file is idle the next time.
func (k *disk) tidy(ctx context.Context) (more bool, err error) {
	free, err := k.freePages(ctx)
	if err != nil {
		return false, err
	}
	if free > sparePages {
		return k.giveBack(ctx, free)
	}
	return false, k.alone(ctx, func() error {
		for _, q := range []string{`PRAGMA busy_timeout = 0`, `PRAGMA wal_checkpoint(TRUNCATE)`, `PRAGMA busy_timeout = 5000`} {
			if err := k.run(q); err != nil {
				return err
			}
		}
		return nil
	})
}

func (k *disk) giveBack(ctx context.Context, free int) (more bool, err error) {
	q := fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, min(backPages, free-sparePages))
	if err := k.alone(ctx, func() error { return k.run(q) }); err != nil {
		return false, err
	}
	left, err := k.freePages(ctx)
	return left < free, err
}

func (k *disk) freePages(ctx context.Context) (n int, err error) {
	err = k.conn.QueryRowContext(ctx, `PRAGMA freelist_count`).Scan(&n)
	return n, err
}
