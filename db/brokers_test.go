package db_test

import (
	"testing"

	"signalbox/db"
)

func TestBrokerIsReadAsWritten(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	full := connection("b", "p")
	bare := db.Broker{ID: "bare", ProjectID: "p", Type: "on-premise-setup", CreatedAt: at(9)}
	must(t, d.CreateBroker(ctx, bare))
	full.Rev, bare.Rev = 1, 1
	for _, want := range []db.Broker{full, bare} {
		got, err := d.GetBroker(ctx, "p", want.ID)
		wantErr(t, err, nil)
		wantEqual(t, got, want)
	}
	other := connection("c", "q")
	must(t, d.CreateBroker(ctx, other))
	other.Rev = 1
	inP, err := d.ListBrokers(ctx, "p")
	wantErr(t, err, nil)
	wantEqual(t, inP, []db.Broker{full, bare})
	all, err := d.AllBrokers(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Broker{full, other, bare})
	none, err := d.ListBrokers(ctx, "none")
	wantErr(t, err, nil)
	wantEqual(t, none, []db.Broker{})
}

func TestBrokerIsFoundInItsProjectOnly(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	_, err := d.GetBroker(ctx, "q", "b")
	wantErr(t, err, db.ErrNotFound)
	_, err = d.GetBroker(ctx, "p", "none")
	wantErr(t, err, db.ErrNotFound)
	stray := connection("b", "q")
	stray.Rev = 1
	wantErr(t, d.UpdateBroker(ctx, stray), db.ErrNotFound)
	wantErr(t, d.DeleteBroker(ctx, "q", "b"), db.ErrNotFound)
	wantErr(t, d.CreateBroker(ctx, connection("b", "q")), db.ErrExists)
	wantErr(t, d.CreateBroker(ctx, connection("c", "none")), db.ErrNotFound)
}

func TestBrokerThatCannotBeStored(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	for name, change := range map[string]func(*db.Broker){
		"unknown type":         func(b *db.Broker) { b.Type = "borrowed" },
		"unknown cluster mode": func(b *db.Broker) { b.ClusterMode = "half" },
		"details are no JSON":  func(b *db.Broker) { b.Details = []byte("{") },
	} {
		b := connection("bad", "p")
		change(&b)
		if err := d.CreateBroker(ctx, b); err == nil {
			t.Errorf("%s: the broker was stored", name)
		}
	}
}

func TestUpdateBrokerRaisesTheRevision(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	want := db.Broker{ID: "b", ProjectID: "p", Rev: 1, Type: "cloud", Name: "other", URL: "ws://other", UpdatedAt: at(30)}
	wantErr(t, d.UpdateBroker(ctx, want), nil)
	want.Rev, want.CreatedAt = 2, connection("b", "p").CreatedAt
	got, err := d.GetBroker(ctx, "p", "b")
	wantErr(t, err, nil)
	wantEqual(t, got, want)

	stale := want
	stale.Rev, stale.Name = 1, "stale"
	wantErr(t, d.UpdateBroker(ctx, stale), db.ErrConflict)
	again, err := d.GetBroker(ctx, "p", "b")
	wantErr(t, err, nil)
	wantEqual(t, again, want)
}

func TestDeleteBrokerLeavesTokens(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateBroker(ctx, connection("c", "p")),
		d.CreateToken(ctx, token("one", "p", "b")), d.CreateToken(ctx, token("two", "p", "c", "b")))
	wantErr(t, d.DeleteBroker(ctx, "p", "b"), nil)
	wantErr(t, d.DeleteBroker(ctx, "p", "b"), db.ErrNotFound)
	got, err := d.ListTokens(ctx, "p")
	wantErr(t, err, nil)
	one, two := token("one", "p", "b"), token("two", "p", "c")
	one.Brokers = []string{}
	wantEqual(t, got, []db.Token{one, two})
}
