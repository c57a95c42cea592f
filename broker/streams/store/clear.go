package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"

	"signalbox/broker/messaging"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// rangeDeletion deletes the messages of a time range in the blocks with ids in
// [from, to).
type rangeDeletion struct {
	*committer
	stored *storedLog
	streams.Range
	from, to int64
}

// startClear starts to delete the messages of a range that are stored now.
func (c *committer) startClear(sl *storedLog, r streams.Range, cleared chan<- error) {
	t := &rangeDeletion{committer: c, stored: sl, Range: r, from: sl.totals.oldest.id, to: blockID(sl.stream, sl.totals.next)}
	end := func(err error) {
		if err != nil {
			err = fmt.Errorf("clear messages: %w", err)
		}
		cleared <- err
		c.startSweep() // to release the free pages
	}
	if sl.totals.oldest.count > 0 && r.From > sl.totals.oldest.firstAt {
		var err error
		if t.from, err = c.reader.seek(context.Background(), t.from, t.to, func(b block) bool { return b.lastAt >= r.From }); err != nil {
			end(err)
			return
		}
	}
	c.tasks = append(c.tasks, task{t.step, end})
}

func (t *rangeDeletion) step() (more bool, err error) {
	from := t.from
	err = t.inTransaction(func(tx *transaction) error {
		blocks, err := tx.list(t.from, t.to, listLimit)
		if err != nil {
			return err
		}
		from, err = t.deleteFrom(tx, blocks)
		return err
	})
	if err != nil {
		return false, t.file.Failure(err, "the messages could not be deleted")
	}
	t.from = from
	return from < t.to, nil
}

// deleteFrom deletes the range from the next blocks and returns the id to
// continue at. Blocks that lie within the range are adjacent, as the others are
// at its ends. They are deleted first, which frees space in case the disk is
// full.
func (t *rangeDeletion) deleteFrom(tx *transaction, blocks []block) (from int64, err error) {
	ch := tx.change(t.stored)
	var whole, partly []block
	from = t.to
	for i, b := range blocks {
		if b.firstAt > t.To {
			break
		}
		if t.From <= b.firstAt && b.lastAt <= t.To {
			whole = append(whole, b)
			tx.subtract(ch, b)
		} else {
			partly = append(partly, b)
		}
		if tx.limitReached() || i == listLimit-1 {
			from = b.id + 1
			break
		}
	}
	if err := tx.remove(ch, whole); err != nil {
		return 0, err
	}
	for _, b := range partly {
		if err := tx.trim(ch, b, t.Range); err != nil {
			return 0, err
		}
	}
	return from, nil
}

// trim deletes the messages of a range from a block that also has others.
func (tx *transaction) trim(ch *change, b block, r streams.Range) error {
	messages, err := tx.read(b.id)
	if err != nil {
		return tx.deleteDamaged(ch, b, err)
	}
	kept := messages[:0]
	for _, m := range messages {
		if m.At < r.From || m.At > r.To {
			kept = append(kept, m)
		}
	}
	switch len(kept) {
	case int(b.count):
		return nil
	case 0:
		tx.subtract(ch, b)
		return tx.remove(ch, []block{b})
	}
	return tx.replace(ch, b, encode(kept, kept[0].At))
}

// replace replaces the content of a block.
func (tx *transaction) replace(ch *change, b block, r run) error {
	tx.body = append(append(tx.body[:0], make([]byte, storage.BlockHeader)...), r.data...)
	tx.count(ch, b, -1)
	now := block{b.id, r.firstAt, r.lastAt, int64(r.count), int64(len(tx.body))}
	tx.count(ch, now, 1)
	if err := tx.exec(setBlock, now.firstAt, now.lastAt, now.count, now.bytes, storage.SealBlock(tx.body), now.id); err != nil {
		return err
	}
	return tx.findOldest(ch, now.id)
}

// errNoBlock is returned for an id without a block.
var errNoBlock = errors.New("there is no such block")

// read reads the messages of a block.
func (tx *transaction) read(id int64) (messages []messaging.Message, err error) {
	row, body := make([]driver.Value, 1), []byte(nil)
	err = tx.Query(int(readBlock), row, func() error {
		body, _ = row[0].([]byte)
		return nil
	}, id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statementNames[readBlock], err)
	}
	if body == nil {
		return nil, errNoBlock
	}
	return decode(nil, body)
}

// deleteIfDamaged deletes a block that a reader found damaged, after checking
// it again.
func (c *committer) deleteIfDamaged(sl *storedLog, id int64) {
	err := c.inTransaction(func(tx *transaction) error {
		blocks, err := tx.list(id, id+1, 1)
		if err != nil || len(blocks) == 0 {
			return err
		}
		if _, err = tx.read(id); err != nil {
			return tx.deleteDamaged(tx.change(sl), blocks[0], err)
		}
		return nil
	})
	if err != nil {
		c.log.Warn("a damaged block of a stream's messages could not be deleted", slog.Int64("stream", sl.stream), slog.Int64("block", sequence(id)), slog.Any("error", err))
	}
}

// deleteDamaged deletes a block that cannot be read. If the cause is not
// damage, it returns the cause.
func (tx *transaction) deleteDamaged(ch *change, b block, cause error) error {
	if !storage.BlockDamaged(cause) {
		return cause
	}
	tx.damaged = append(tx.damaged, damage{b, cause})
	tx.subtract(ch, b)
	ch.evicted += b.count
	return tx.remove(ch, []block{b})
}
