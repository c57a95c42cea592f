package db_test

import (
	"fmt"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
)

func TestUserIsReadAsWritten(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	plain, bare := user("plain"), db.User{ID: "bare", Email: "bare@example.org", SSOType: "ldap", Root: true}
	must(t, d.CreateUser(ctx, plain), d.CreateUser(ctx, bare))
	for _, want := range []db.User{plain, bare} {
		got, err := d.GetUser(ctx, want.ID)
		wantErr(t, err, nil)
		wantEqual(t, got, db.UserSummary{User: want})
		byEmail, err := d.UserByEmail(ctx, want.Email)
		wantErr(t, err, nil)
		wantEqual(t, byEmail, want)
	}
	_, err := d.GetUser(ctx, "nobody")
	wantErr(t, err, db.ErrNotFound)
	_, err = d.UserByEmail(ctx, "nobody@example.org")
	wantErr(t, err, db.ErrNotFound)
}

func TestUserName(t *testing.T) {
	t.Parallel()
	tests := []struct{ first, last, want string }{
		{"Ada", "Lovelace", "Ada Lovelace"},
		{"Ada", "", "Ada"},
		{"", "Lovelace", "Lovelace"},
		{"", "", "ada@example.org"},
	}
	for _, tt := range tests {
		u := db.User{FirstName: tt.first, LastName: tt.last, Email: "ada@example.org"}
		if got := u.Name(); got != tt.want {
			t.Errorf("name of %q %q: got %q, want %q", tt.first, tt.last, got, tt.want)
		}
	}
}

func TestEmailIsUniqueInAnyCase(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	u := user("u")
	u.Email = "Jürgen.Ähm@Example.org"
	must(t, d.CreateUser(ctx, u), d.CreateUser(ctx, user("v")))
	const other = "jÜRGEN.äHM@example.ORG"
	got, err := d.UserByEmail(ctx, " "+other)
	wantErr(t, err, nil)
	wantEqual(t, got.Email, u.Email)

	twin := user("twin")
	twin.Email = other
	wantErr(t, d.CreateUser(ctx, twin), db.ErrExists)
	wantErr(t, d.UpdateUser(ctx, db.UserUpdate{ID: "v", Email: ptr(other)}), db.ErrExists)
	wantErr(t, d.UpdateUser(ctx, db.UserUpdate{ID: "u", Email: ptr(other)}), nil)
	wantErr(t, d.CreateUser(ctx, db.User{ID: "u", Email: "free@example.org"}), db.ErrExists)
}

func TestListUsersPages(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	for i := range 7 {
		u := user(fmt.Sprintf("u%d", i))
		u.CreatedAt = at(int64(-i / 2)) // the later made, the older; two by two the same age
		must(t, d.CreateUser(ctx, u))
	}
	tests := []struct {
		offset, limit int
		want          []string
	}{
		{0, 3, []string{"u6", "u4", "u5"}},
		{3, 3, []string{"u2", "u3", "u0"}},
		{6, 3, []string{"u1"}},
		{9, 3, nil},
		{5, -1, []string{"u0", "u1"}},
	}
	for _, tt := range tests {
		total, page, err := d.ListUsers(ctx, tt.offset, tt.limit)
		wantErr(t, err, nil)
		var got []string
		for _, u := range page {
			got = append(got, u.ID)
		}
		wantEqual(t, total, 7)
		wantEqual(t, got, tt.want)
	}
}

func TestUserByID(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	must(t, d.CreateUser(ctx, user("a")))
	got, err := d.UserByID(ctx, "a")
	wantErr(t, err, nil)
	wantEqual(t, got, user("a"))
	_, err = d.UserByID(ctx, "b")
	wantErr(t, err, db.ErrNotFound)
}

func TestUserSummaryCountsProjectsAndBrokers(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateBroker(ctx, connection("b2", "p")), d.PutMember(ctx, "p", "guest", "viewer", at(8)))
	for id, want := range map[string][2]int{"owner": {2, 2}, "guest": {1, 2}} {
		got, err := d.GetUser(ctx, id)
		wantErr(t, err, nil)
		wantEqual(t, [2]int{got.ProjectCount, got.BrokerCount}, want)
	}
	_, page, err := d.ListUsers(ctx, 0, -1)
	wantErr(t, err, nil)
	wantEqual(t, []int{page[0].BrokerCount, page[1].BrokerCount}, []int{2, 2})
}

func TestUpdateUserChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	want := user("u")
	must(t, d.CreateUser(ctx, want))
	check := func(c db.UserUpdate) {
		t.Helper()
		c.ID, c.UpdatedAt = "u", want.UpdatedAt.Add(1e9)
		want.UpdatedAt = c.UpdatedAt
		wantErr(t, d.UpdateUser(ctx, c), nil)
		got, err := d.GetUser(ctx, "u")
		wantErr(t, err, nil)
		wantEqual(t, got.User, want)
	}
	check(db.UserUpdate{})
	want.FirstName, want.LastName = "", "Other"
	check(db.UserUpdate{FirstName: ptr(""), LastName: ptr("Other")})
	want.Email, want.Verified = "other@example.org", false
	check(db.UserUpdate{Email: ptr("other@example.org"), Verified: ptr(false)})
	want.PasswordHash = "other"
	check(db.UserUpdate{PasswordHash: ptr("other")})
	wantErr(t, d.UpdateUser(ctx, db.UserUpdate{ID: "nobody"}), db.ErrNotFound)
}

func TestDeleteUser(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.PutMember(ctx, "p", "guest", "admin", at(8)), d.CreateSession(ctx, session("s", "guest")))
	wantErr(t, d.DeleteUser(ctx, "nobody"), db.ErrNotFound)
	wantErr(t, d.DeleteUser(ctx, "owner"), db.ErrInUse)
	wantErr(t, d.DeleteUser(ctx, "guest"), nil)
	wantErr(t, d.DeleteUser(ctx, "guest"), db.ErrNotFound)
	_, _, err := d.SessionUser(ctx, "s", at(0))
	wantErr(t, err, db.ErrNotFound)
	role, err := d.RoleOf(ctx, "p", "guest")
	wantErr(t, err, nil)
	wantEqual(t, role, "")
}
