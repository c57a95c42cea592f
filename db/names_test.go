package db_test

import (
	"context"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
)

func TestUserNames(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	must(t, d.CreateUser(ctx, user("b")), d.CreateUser(ctx, user("c")), d.CreateUser(ctx, user("A")))
	var got []string
	for u, err := range d.UserNames(ctx) {
		wantErr(t, err, nil)
		wantEqual(t, u.Name(), user(u.ID).Name())
		wantEqual(t, u.Email, user(u.ID).Email)
		if got = append(got, u.ID); u.ID == "b" {
			break
		}
	}
	wantEqual(t, got, []string{"A", "b"})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range d.UserNames(ended) {
		wantErr(t, err, context.Canceled)
	}
}

func TestNamesOfProjects(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateBroker(ctx, connection("b2", "p")))
	all, err := d.ListBrokers(ctx, "p")
	wantErr(t, err, nil)
	var want []db.Name
	for _, b := range all {
		want = append(want, db.Name{ID: b.ID, ProjectID: "p", Name: b.Name, Rev: b.Rev})
	}
	got, err := d.BrokerNames(ctx, []string{"none", "p"})
	wantErr(t, err, nil)
	wantEqual(t, got, want)
	got, err = d.ClusterNames(ctx, []string{"none"})
	wantErr(t, err, nil)
	wantEqual(t, got, []db.Name{})
}
