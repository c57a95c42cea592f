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

// clearing deletes the messages of a range in the blocks from an id up to
// another.
type clearing struct {
	*committer
	journal *journal
	streams.Range
	from, to int64
}

// clear begins to delete the messages of a range that are stored now.
func (c *committer) clear(j *journal, r streams.Range, cleared chan<- error) {
	k := &clearing{committer: c, journal: j, Range: r, from: j.tally.front.id, to: blockID(j.stream, j.tally.next)}
	end := func(err error) {
		if err != nil {
			err = fmt.Errorf("clear messages: %w", err)
		}
		cleared <- err
		c.sweep() // which gives back the room
	}
	if j.tally.front.count > 0 && r.From > j.tally.front.firstAt {
		var err error
		if k.from, err = c.reading.seek(context.Background(), k.from, k.to, func(b block) bool { return b.lastAt >= r.From }); err != nil {
			end(err)
			return
		}
	}
	c.chores = append(c.chores, chore{k.step, end})
}

func (k *clearing) step() (more bool, err error) {
	from := k.from
	err = k.transact(func(tx *transaction) error {
		blocks, err := tx.list(k.from, k.to, listRows)
		if err != nil {
			return err
		}
		from, err = k.clear(tx, blocks)
		return err
	})
	if err != nil {
		return false, k.file.Failure(err, "the messages could not be deleted")
	}
	k.from = from
	return from < k.to, nil
}

// clear deletes what is in the range of the next blocks and tells where to go
// on. The blocks that go as a whole are side by side, as the others are at the
// ends of the range; they go first, so that there is room where the disk is full.
func (k *clearing) clear(tx *transaction, blocks []block) (from int64, err error) {
	ch := tx.change(k.journal)
	var whole, partly []block
	from = k.to
	for i, b := range blocks {
		if b.firstAt > k.To {
			break
		}
		if k.From <= b.firstAt && b.lastAt <= k.To {
			whole = append(whole, b)
			tx.take(ch, b)
		} else {
			partly = append(partly, b)
		}
		if tx.spent() || i == listRows-1 {
			from = b.id + 1
			break
		}
	}
	if err := tx.remove(ch, whole); err != nil {
		return 0, err
	}
	for _, b := range partly {
		if err := tx.trim(ch, b, k.Range); err != nil {
			return 0, err
		}
	}
	return from, nil
}

// trim deletes the messages of a range from a block that has others, too.
func (tx *transaction) trim(ch *change, b block, r streams.Range) error {
	messages, err := tx.read(b.id)
	if err != nil {
		return tx.dispose(ch, b, err)
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
		tx.take(ch, b)
		return tx.remove(ch, []block{b})
	}
	return tx.replace(ch, b, encode(kept, kept[0].At))
}

// replace has a block hold something else.
func (tx *transaction) replace(ch *change, b block, r run) error {
	tx.body = append(append(tx.body[:0], make([]byte, storage.BlockHeader)...), r.data...)
	tx.count(ch, b, -1)
	now := block{b.id, r.firstAt, r.lastAt, int64(r.count), int64(len(tx.body))}
	tx.count(ch, now, 1)
	if err := tx.exec(setBlock, now.firstAt, now.lastAt, now.count, now.bytes, storage.SealBlock(tx.body), now.id); err != nil {
		return err
	}
	return tx.face(ch, now.id)
}

// errNoBlock is the answer where there is no block of a number.
var errNoBlock = errors.New("there is no such block")

// read reads the messages of a block.
func (tx *transaction) read(id int64) (messages []messaging.Message, err error) {
	row, body := make([]driver.Value, 1), []byte(nil)
	err = tx.conn.Query(int(readBlock), row, func() error {
		body, _ = row[0].([]byte)
		return nil
	}, id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names[readBlock], err)
	}
	if body == nil {
		return nil, errNoBlock
	}
	return decode(nil, body)
}

// discard deletes a block that was found to be damaged, if it is.
func (c *committer) discard(j *journal, id int64) {
	err := c.transact(func(tx *transaction) error {
		blocks, err := tx.list(id, id+1, 1)
		if err != nil || len(blocks) == 0 {
			return err
		}
		if _, err = tx.read(id); err != nil {
			return tx.dispose(tx.change(j), blocks[0], err)
		}
		return nil
	})
	if err != nil {
		c.log.Warn("a damaged block of a stream's messages could not be deleted", slog.Int64("stream", j.stream), slog.Int64("block", sequence(id)), slog.Any("err", err))
	}
}

// dispose deletes a block that cannot be read, unless that is not its fault.
func (tx *transaction) dispose(ch *change, b block, cause error) error {
	if !storage.BlockDamaged(cause) {
		return cause
	}
	tx.damaged = append(tx.damaged, damage{b, cause})
	tx.take(ch, b)
	ch.evicted += b.count
	return tx.remove(ch, []block{b})
}
