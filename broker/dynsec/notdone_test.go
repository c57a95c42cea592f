package dynsec

import (
	"errors"
	"testing"

	"signalbox/broker"
)

// TestNotDone checks that the text of a failure states whether to retry, so that its
// kind can be classified.
func TestNotDone(t *testing.T) {
	t.Parallel()
	for _, kind := range []broker.Kind{broker.Unavailable, broker.Unconfirmed} {
		text := NotDone(&broker.Error{Kind: kind, Msg: "the group not found already has no leader"})
		if got := broker.KindOf(classify("createRole", text)); got != kind {
			t.Errorf("%q is of kind %v, want %v", text, got, kind)
		}
	}
	if got := NotDone(errors.New("of our own")); got != errInternal.Error() {
		t.Errorf("got %q", got)
	}
}
