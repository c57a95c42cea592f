package access

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func TestBansArePersistent(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "broker.db"), t.Context()
	c := open(t, path)
	at := time.UnixMilli(1_700_000_000_123).UTC()
	first := broker.Ban{Kind: broker.BanClientID, Value: "a", Reason: "r", CreatedAt: at, CreatedBy: "api"}
	again := first
	again.Reason, again.ExpiresAt = "other", at.Add(time.Hour)
	gone := broker.Ban{Kind: broker.BanAddress, Value: "10.0.0.0/8", CreatedAt: at, CreatedBy: "api"}
	must(t, c.PutBan(ctx, first), c.PutBan(ctx, again), c.PutBan(ctx, gone),
		c.DeleteBans(ctx, []broker.Ban{gone, {Kind: gone.Kind, Value: "nobody's"}}))
	shut(t, c)

	got, err := open(t, path).LoadBans(ctx)
	if diff := cmp.Diff([]broker.Ban{again}, got); err != nil || diff != "" {
		t.Errorf("after a restart (-want +got), error %v:\n%s", err, diff)
	}
}
