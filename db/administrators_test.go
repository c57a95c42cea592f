package db_test

import (
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
)

func TestRoots(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	first, second := user("first"), user("second")
	first.Root, second.CreatedAt = true, at(9)
	must(t, d.CreateUser(ctx, first), d.CreateUser(ctx, second))
	wantRoots(t, d, "first")

	wantErr(t, d.SetRoot(ctx, "nobody@example.org", true, at(10)), db.ErrNotFound)
	wantErr(t, d.SetRoot(ctx, "SECOND@example.org", true, at(10)), nil)
	wantErr(t, d.SetRoot(ctx, "second@example.org", true, at(11)), nil)
	wantRoots(t, d, "first", "second")
	total, page, err := d.ListRoots(ctx, 1, 1)
	wantErr(t, err, nil)
	second.Root, second.UpdatedAt = true, at(10)
	wantEqual(t, total, 2)
	wantEqual(t, page, []db.User{second})

	wantErr(t, d.SetRoot(ctx, "first@example.org", false, at(12)), nil)
	wantErr(t, d.SetRoot(ctx, "first@example.org", false, at(13)), nil)
	wantRoots(t, d, "second")
}

func TestLastRootStays(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	last := user("last")
	last.Root = true
	must(t, d.CreateUser(ctx, last), d.CreateUser(ctx, user("other")))
	wantErr(t, d.SetRoot(ctx, last.Email, false, at(9)), db.ErrLastRoot)
	wantErr(t, d.DeleteUser(ctx, "last"), db.ErrLastRoot)
	wantErr(t, d.UpdateUser(ctx, db.UserUpdate{ID: "last", Verified: ptr(false)}), db.ErrLastRoot)
	wantErr(t, d.UpdateUser(ctx, db.UserUpdate{ID: "last", Verified: ptr(true)}), nil)
	wantRoots(t, d, "last")

	must(t, d.SetRoot(ctx, "other@example.org", true, at(9)))
	wantErr(t, d.DeleteUser(ctx, "last"), nil)
	wantErr(t, d.DeleteUser(ctx, "other"), db.ErrLastRoot)
}

func wantRoots(t *testing.T, d *db.DB, want ...string) {
	t.Helper()
	total, page, err := d.ListRoots(t.Context(), 0, -1)
	wantErr(t, err, nil)
	var got []string
	for _, u := range page {
		got = append(got, u.ID)
	}
	wantEqual(t, got, want)
	wantEqual(t, total, len(want))
}
