package bridgestest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
)

// Reject makes dead letters.
func (q *queue) Reject(ctx context.Context, list []bridges.Rejection) error {
	if err := q.store.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range list {
		i := slices.IndexFunc(q.list, func(e bridges.Entry) bool { return e.ID == r.ID })
		if i < 0 {
			continue
		}
		q.addDeadLetter(q.list[i], r)
		q.remove([]uint64{r.ID})
	}
	return nil
}

func (q *queue) addDeadLetter(e bridges.Entry, r bridges.Rejection) {
	if q.from == nil {
		q.from = map[string]bridges.Entry{}
	}
	id := strconv.FormatUint(e.ID, 10)
	q.from[id] = e
	q.dead = append(q.dead, broker.DeadLetter{
		ID: id, Topic: e.Topic, Payload: string(e.Payload), Size: len(e.Payload), QoS: int(e.QoS), Mapping: e.Mapping,
		ReceivedAt: time.UnixMilli(e.At), RejectedAt: r.At, Attempts: r.Attempts, Reason: r.Reason, Answer: r.Response,
	})
	if over := int64(len(q.dead)) - q.bounds.DeadLetters; over > 0 {
		q.dead = q.dead[over:]
		q.usage.LostDeadLetters += over
	}
}

// DeadLetters returns a page of the dead letters.
func (q *queue) DeadLetters(_ context.Context, offset, count int) (total int, list []broker.DeadLetter, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list = q.dead[min(offset, len(q.dead)):]
	if count >= 0 {
		list = list[:min(count, len(list))]
	}
	return len(q.dead), slices.Clone(list), q.store.Err()
}

// RetryDeadLetters puts dead letters into the queue.
func (q *queue) RetryDeadLetters(_ context.Context, ids []string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.signal()
	return q.removeDeadLetters(ids, func(id string) { q.add(q.from[id]) }), nil
}

// DeleteDeadLetters deletes dead letters.
func (q *queue) DeleteDeadLetters(_ context.Context, ids []string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.removeDeadLetters(ids, func(string) {}), nil
}

// removeDeadLetters removes dead letters, all if ids is empty.
func (q *queue) removeDeadLetters(ids []string, each func(id string)) (n int) {
	q.dead = slices.DeleteFunc(slices.Clone(q.dead), func(d broker.DeadLetter) bool {
		if len(ids) > 0 && !slices.Contains(ids, d.ID) {
			return false
		}
		each(d.ID)
		n++
		return true
	})
	return n
}
