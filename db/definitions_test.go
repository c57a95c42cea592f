package db_test

import (
	"testing"

	"signalbox/db"
)

// TestDefinitions stores, replaces and deletes the definitions of a broker connection.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	stream := db.Definition{Kind: db.StreamDefinition, BrokerID: "b", Name: "levels", Rev: 1, Document: []byte(`{"a":1}`)}
	bridge := db.Definition{Kind: db.BridgeDefinition, BrokerID: "b", Name: "kafka-bridge", Rev: 5, Document: []byte("sealed")}
	missing := stream
	missing.BrokerID = "none"
	must(t, d.PutDefinition(ctx, stream, 0), d.PutDefinition(ctx, bridge, 0))
	wantErr(t, d.PutDefinition(ctx, missing, 0), db.ErrNotFound)
	wantErr(t, d.PutDefinition(ctx, stream, 0), db.ErrConflict)
	changed := stream
	changed.Rev, changed.Document = 2, []byte(`{"a":2}`)
	wantErr(t, d.PutDefinition(ctx, changed, 7), db.ErrConflict)
	must(t, d.PutDefinition(ctx, changed, 1))
	wantErr(t, d.PutDefinition(ctx, changed, 1), db.ErrConflict)
	all, err := d.ListDefinitions(ctx, db.StreamDefinition, "b")
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{changed})
	wantErr(t, d.DeleteDefinition(ctx, stream), db.ErrConflict)
	must(t, d.DeleteDefinition(ctx, changed))
	wantErr(t, d.DeleteDefinition(ctx, changed), db.ErrConflict)
	all, err = d.AllDefinitions(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{bridge})
	must(t, d.DeleteBroker(ctx, "p", "b"))
	all, err = d.AllDefinitions(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{})
}

// TestImported checks that what was noted is there after the next opening.
func TestImported(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	wantEqual(t, d.HasImported(), false)
	must(t, d.Imported(ctx))
	wantEqual(t, d.HasImported(), true)
}

// TestConfigurationsAreSecrets checks that configurations of bridges are among the secrets, and streams are not.
func TestConfigurationsAreSecrets(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.DeleteBroker(ctx, "p", "b"))
	row := connection("b", "p")
	row.Secrets = nil
	stream := db.Definition{Kind: db.StreamDefinition, BrokerID: "b", Name: "levels", Rev: 1, Document: []byte("{}")}
	bridge := db.Definition{Kind: db.BridgeDefinition, BrokerID: "b", Name: "kafka-bridge", Rev: 1, Document: []byte("sealed")}
	must(t, d.CreateBroker(ctx, row), d.PutDefinition(ctx, stream, 0))
	has, err := d.HasSecrets(ctx)
	wantErr(t, err, nil)
	wantEqual(t, has, false)
	must(t, d.PutDefinition(ctx, bridge, 0))
	has, err = d.HasSecrets(ctx)
	wantErr(t, err, nil)
	wantEqual(t, has, true)
	all, err := d.ListSealed(ctx)
	wantErr(t, err, nil)
	if len(all) != 1 || all[0].ID != bridge.ID() || string(all[0].Secrets) != "sealed" {
		t.Fatalf("secrets: %+v", all)
	}
	all[0].Secrets = []byte("sealed anew")
	must(t, d.PutSealed(ctx, all))
	stored, err := d.ListDefinitions(ctx, db.BridgeDefinition, "b")
	wantErr(t, err, nil)
	if len(stored) != 1 || string(stored[0].Document) != "sealed anew" || stored[0].Rev != 1 {
		t.Fatalf("stored: %+v", stored)
	}
}
