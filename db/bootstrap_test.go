package db_test

import (
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
)

func TestInitialise(t *testing.T) {
	t.Parallel()
	for name, embedded := range map[string]*db.Broker{"with a broker": ptr(connection("b", "p")), "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, ctx := dbtest.New(t), t.Context()
			wantInitialised(t, d, false)
			root := user("root")
			root.Root = true
			wantErr(t, d.Initialise(ctx, root, project("p", "root"), embedded), nil)
			wantInitialised(t, d, true)
			wantRoots(t, d, "root")
			role, err := d.RoleOf(ctx, "p", "root")
			wantErr(t, err, nil)
			wantEqual(t, role, "admin")
			all, err := d.AllBrokers(ctx)
			wantErr(t, err, nil)
			wantEqual(t, len(all) == 1, embedded != nil)
			wantErr(t, d.Initialise(ctx, user("x"), project("y", "x"), nil), db.ErrExists)
			wantRoots(t, d, "root")
		})
	}
}

func TestInitialiseIsAllOrNothing(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	err := d.Initialise(ctx, user("root"), project("p", "root"), ptr(connection("b", "none")))
	wantErr(t, err, db.ErrNotFound)
	wantInitialised(t, d, false)
	all, err := d.AllProjects(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Project{})
}

func wantInitialised(t *testing.T, d *db.DB, want bool) {
	t.Helper()
	got, err := d.Initialised(t.Context())
	wantErr(t, err, nil)
	wantEqual(t, got, want)
}
