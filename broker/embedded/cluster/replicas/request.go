package replicas

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// The reasons for which a request is not repeated.
var (
	errUnknown = errors.New("the node does not have the replica any more, or only a part of it")
	errRefused = errors.New("the node can store no replicas at present")
)

// Bounds of the delay between attempts of a request.
const (
	minRetryDelay = 10 * time.Millisecond
	maxRetryDelay = 200 * time.Millisecond
)

// request sends a request in pieces, and repeats each until the timeout: all are idempotent.
func (s *stream) request(kind byte, body []byte) error {
	p := piece{kind: kind, stream: s.id, total: uint64(len(body))}
	for began := time.Now(); ; {
		p.bytes = body[p.offset:min(len(body), int(p.offset)+maxPiece)]
		status, err := s.ask(p.encode())
		switch {
		case err != nil:
			return err
		case status == statusUnknown:
			return errUnknown
		case status == statusRefused:
			return errRefused
		case status == statusEnded:
			return ErrPromoted
		case status == statusAgain && time.Since(began) > s.r.o.Timeout:
			return fmt.Errorf("node %d loses parts of what it is sent", s.node)
		case status == statusAgain:
			p.offset = 0
			continue
		}
		if p.offset += uint64(len(p.bytes)); p.offset == p.total {
			return nil
		}
	}
}

// ask sends one piece until there is a response.
func (s *stream) ask(request []byte) (status byte, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.r.o.Timeout)
	defer cancel()
	var refusedAt time.Time // since when connections are refused, zero if they are not
	for delay := minRetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		b, err := s.r.o.Net.Ask(ctx, s.node, request)
		if err == nil {
			return decodeStatus(b)
		}
		switch {
		case !errors.Is(err, syscall.ECONNREFUSED):
			refusedAt = time.Time{}
		case refusedAt.IsZero():
			refusedAt = time.Now()
		case time.Since(refusedAt) >= s.r.o.RefusedTimeout:
			cancel()
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return 0, fmt.Errorf("node %d does not respond: %w", s.node, err)
		}
	}
}
