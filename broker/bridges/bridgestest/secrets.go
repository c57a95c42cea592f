package bridgestest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"signalbox/broker"
)

// Reread checks how the configuration of a rig handles secrets, of which it must have the given
// number: they are masked when it is read, and it is accepted in that form. If the address is
// replaced by another, it is refused.
func (r *Rig) Reread(tb testing.TB, secrets int, address, another string) {
	tb.Helper()
	ctx := context.Background()
	masked, err := r.GetBridgeConfig(ctx, r.Kind.ID())
	if err != nil {
		tb.Fatal(err)
	}
	if got := strings.Count(string(masked), `"********"`); got != secrets || strings.Contains(string(masked), "secret-") {
		tb.Errorf("got %d secrets that are masked, want %d: %s", got, secrets, masked)
	}
	if err := r.SetBridgeConfig(ctx, r.Kind.ID(), masked); err != nil {
		tb.Errorf("what was read cannot be sent back: %v", err)
	}
	elsewhere := strings.Replace(string(masked), address, another, 1)
	var invalid *broker.Error
	err = r.SetBridgeConfig(ctx, r.Kind.ID(), json.RawMessage(elsewhere))
	if elsewhere == string(masked) || !errors.As(err, &invalid) || len(invalid.Fields) == 0 {
		tb.Errorf("%s: got %+v, want secrets to be asked for", another, err)
	}
}
