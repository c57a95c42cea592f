package ranking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/singleflight"

	"signalbox/broker/panics"
)

// Shared shares each ranking among its simultaneous callers. The zero value is ready to use.
// It is safe for concurrent use.
type Shared[T any] struct{ calls singleflight.Group }

// errPanic means that a ranking was ended by a panic, which was logged.
var errPanic = errors.New("the service failed")

// Do returns the outcome of rank, or of a call of it with the same key that is in progress,
// or the error of the context if that ends before. Rank is not ended with the context of one
// of its callers, so it must end by itself.
func (s *Shared[T]) Do(ctx context.Context, key string, log *slog.Logger, rank func(context.Context) (T, error)) (T, error) {
	done := s.calls.DoChan(key, func() (v any, err error) {
		defer func() {
			if v := recover(); v != nil {
				panics.Log(context.Background(), log, "a ranking was ended by a panic", fmt.Sprint(v))
				err = errPanic
			}
		}()
		return rank(context.WithoutCancel(ctx))
	})
	var none T
	select {
	case r := <-done:
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(T), nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
