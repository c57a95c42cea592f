package storage

import (
	"context"
	"fmt"
)

// Spare is how many bytes of free pages a file keeps for what comes next.
const Spare = sparePages * 4096

// Free pages of 4 KiB that are kept, and how many are given back at a time:
// changes that come meanwhile wait for so long.
const (
	sparePages = 4096
	backPages  = 1024
)

// Tidy gives back some of the room of what was deleted, as GiveBack does, or,
// when there is none to give back, folds the log into the file. It tells whether
// there is more to do. It waits for no reader: what cannot be done now is done
// when it is called the next time.
func (c *Conn) Tidy(ctx context.Context) (more bool, err error) {
	if more, err = c.GiveBack(ctx); more || err != nil {
		return more, err
	}
	return false, c.alone(ctx, func() error {
		for _, q := range []string{`PRAGMA busy_timeout = 0`, `PRAGMA wal_checkpoint(TRUNCATE)`, `PRAGMA busy_timeout = 5000`} {
			if err := c.Run(q); err != nil {
				return err
			}
		}
		return nil
	})
}

// GiveBack gives back some of the room of what was deleted, beyond what will be
// used again soon. It tells whether there is more to give back.
func (c *Conn) GiveBack(ctx context.Context) (more bool, err error) {
	free, err := c.freePages(ctx)
	if err != nil || free <= sparePages {
		return false, err
	}
	q := fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, min(backPages, free-sparePages))
	if err := c.alone(ctx, func() error { return c.Run(q) }); err != nil {
		return false, err
	}
	left, err := c.freePages(ctx)
	return left < free, err
}

func (c *Conn) freePages(ctx context.Context) (n int, err error) {
	err = c.conn.QueryRowContext(ctx, `PRAGMA freelist_count`).Scan(&n)
	return n, err
}
