package messaging_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// empty is a store without content.
type empty struct{}

func (empty) Forget(context.Context, string) error { return nil }
func (empty) Err() error                           { return nil }

// TestLoadIsTriedAgain checks that a repeated error is logged once, and that
// stop is called once.
func TestLoadIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := messaging.NewLifecycle("b", "stream", slog.New(slog.NewTextHandler(&log, nil)))
		errs := []error{errors.New("first"), errors.New("first"), errors.New("second"), nil}
		stopped := 0
		messaging.NewHost[*messaging.Lifecycle](empty{}).Start(l, l, func(context.Context) error {
			err := errs[0]
			errs = errs[1:]
			return err
		}, func() { stopped++ })
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Close(t.Context()), l.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); strings.Count(text, "first") != 1 || strings.Count(text, "second") != 1 || stopped != 1 {
			t.Errorf("stopped %d times, log:\n%s", stopped, text)
		}
	})
}

// TestStoreFailed checks that the text of an error for users is kept, and that
// of any other is hidden.
func TestStoreFailed(t *testing.T) {
	t.Parallel()
	l := messaging.NewLifecycle("b", "bridge", slog.New(slog.DiscardHandler))
	full := &broker.Error{Kind: broker.Unavailable, Msg: "the disk is full"}
	for _, tt := range []struct {
		give error
		kind broker.Kind
		want string
	}{
		{full, broker.Unavailable, "the disk is full"},
		{errors.New("secret"), broker.Internal, "the bridges' database failed; see the service's log"},
	} {
		got, ok := errors.AsType[*broker.Error](l.StoreFailed("op", tt.give))
		if !ok || got.Kind != tt.kind || got.Op != "op" || got.Msg != tt.want || !errors.Is(got, tt.give) {
			t.Errorf("got %+v", got)
		}
	}
}
