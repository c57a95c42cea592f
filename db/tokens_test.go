package db_test

import (
	"testing"
	"time"

	"signalbox/db"
)

func TestTokenIsReadAsWritten(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateBroker(ctx, connection("a", "p")))
	limited, open := token("limited", "p", "b", "a"), token("open", "p")
	open.ValidUntil, open.IssuedAt = time.Time{}, at(50)
	must(t, d.CreateToken(ctx, open), d.CreateToken(ctx, limited))
	for _, want := range []db.Token{limited, open} {
		got, err := d.TokenByHash(ctx, want.Hash)
		wantErr(t, err, nil)
		wantEqual(t, got, want)
	}
	all, err := d.ListTokens(ctx, "p")
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Token{limited, open})
	none, err := d.ListTokens(ctx, "q")
	wantErr(t, err, nil)
	wantEqual(t, none, []db.Token{})
	_, err = d.TokenByHash(ctx, "unknown")
	wantErr(t, err, db.ErrNotFound)
}

func TestTokenThatCannotBe(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateBroker(ctx, connection("elsewhere", "q")), d.CreateToken(ctx, token("t", "p")))
	sameHash := token("u", "p")
	sameHash.Hash = token("t", "p").Hash
	wantErr(t, d.CreateToken(ctx, sameHash), db.ErrExists)
	wantErr(t, d.CreateToken(ctx, token("t", "p")), db.ErrExists)
	wantErr(t, d.CreateToken(ctx, token("u", "none")), db.ErrNotFound)
	wantErr(t, d.CreateToken(ctx, token("u", "p", "b", "elsewhere")), db.ErrNotFound)
	all, err := d.ListTokens(ctx, "p")
	wantErr(t, err, nil)
	wantEqual(t, len(all), 1)
}

func TestTokenNamesABrokerTwice(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateBroker(ctx, connection("a", "p")), d.CreateToken(ctx, token("t", "p", "b", "a", "b")))
	got, err := d.TokenByHash(ctx, token("t", "p").Hash)
	wantErr(t, err, nil)
	wantEqual(t, got.Brokers, []string{"b", "a"})
}

func TestDeleteToken(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateToken(ctx, token("t", "p", "b")))
	for _, c := range []struct {
		project string
		want    error
	}{{"q", db.ErrNotFound}, {"p", nil}, {"p", db.ErrNotFound}} {
		ended, err := d.DeleteToken(ctx, c.project, "t")
		wantErr(t, err, c.want)
		wantEqual(t, len(ended), 0)
	}
	_, err := d.TokenByHash(ctx, token("t", "p").Hash)
	wantErr(t, err, db.ErrNotFound)
}

// A token that is stored as its own ancestor is revoked like any other, and can be given away.
func TestTokenIsItsOwnAncestor(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	own := token("t", "p")
	own.ParentID = own.ID
	must(t, d.CreateToken(ctx, own), d.SetTokenOwner(ctx, "p", own.ID, "owner"))
	own = token("u", "p")
	own.ParentID = own.ID
	must(t, d.CreateToken(ctx, own))
	_, err := d.DeleteToken(ctx, "p", own.ID)
	wantErr(t, err, nil)
	_, err = d.TokenByHash(ctx, own.Hash)
	wantErr(t, err, db.ErrNotFound)
}

func TestTouchTokens(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateToken(ctx, token("t", "p")), d.CreateToken(ctx, token("u", "p")))
	touch := func(used map[string]time.Time, want map[string]time.Time) {
		t.Helper()
		wantErr(t, d.TouchTokens(ctx, used), nil)
		for id, at := range want {
			got, err := d.TokenByHash(ctx, token(id, "p").Hash)
			wantErr(t, err, nil)
			wantEqual(t, got.LastUsedAt, at)
		}
	}
	touch(map[string]time.Time{"t": at(60), "gone": at(60)}, map[string]time.Time{"t": at(60), "u": {}})
	touch(map[string]time.Time{"t": at(59), "u": at(61)}, map[string]time.Time{"t": at(60), "u": at(61)})
}
