package db_test

import (
	"testing"

	"signalbox/db"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	owner := db.Member{ProjectID: "p", UserID: "owner", Name: "First owner", Email: "owner@example.org", Role: "admin", AddedAt: at(3)}
	guest := db.Member{ProjectID: "p", UserID: "guest", Name: "First guest", Email: "guest@example.org", Role: "viewer", AddedAt: at(8)}
	wantMembers := func(want ...db.Member) {
		t.Helper()
		got, err := d.ListMembers(ctx, "p")
		wantErr(t, err, nil)
		wantEqual(t, got, want)
	}
	wantMembers(owner)
	wantErr(t, d.PutMember(ctx, "p", "guest", "viewer", at(8)), nil)
	wantMembers(guest, owner)
	guest.Role = "editor"
	wantErr(t, d.PutMember(ctx, "p", "guest", "editor", at(9)), nil) // is a member since the first
	wantMembers(guest, owner)
	wantErr(t, d.DeleteMember(ctx, "p", "guest"), nil)
	wantErr(t, d.DeleteMember(ctx, "p", "guest"), db.ErrNotFound)
	wantMembers(owner)
}

func TestMembersThatCannotBe(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	_, err := d.ListMembers(ctx, "none")
	wantErr(t, err, db.ErrNotFound)
	wantErr(t, d.PutMember(ctx, "none", "guest", "viewer", at(8)), db.ErrNotFound)
	wantErr(t, d.PutMember(ctx, "p", "nobody", "viewer", at(8)), db.ErrNotFound)
	wantErr(t, d.DeleteMember(ctx, "none", "guest"), db.ErrNotFound)
	if err := d.PutMember(ctx, "p", "guest", "emperor", at(8)); err == nil {
		t.Error("an unknown role was stored")
	}
}

func TestOwnerStaysAdmin(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	wantErr(t, d.PutMember(ctx, "p", "owner", "editor", at(8)), db.ErrInUse)
	wantErr(t, d.DeleteMember(ctx, "p", "owner"), db.ErrInUse)
	wantErr(t, d.PutMember(ctx, "p", "owner", "admin", at(8)), nil)
	role, err := d.RoleOf(ctx, "p", "owner")
	wantErr(t, err, nil)
	wantEqual(t, role, "admin")
}

func TestRoleOf(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.PutMember(ctx, "p", "guest", "editor", at(8)))
	tests := []struct {
		project, user, want string
		err                 error
	}{
		{"p", "owner", "admin", nil},
		{"p", "guest", "editor", nil},
		{"q", "guest", "", nil},
		{"q", "", "", nil},
		{"none", "guest", "", db.ErrNotFound},
	}
	for _, tt := range tests {
		got, err := d.RoleOf(ctx, tt.project, tt.user)
		wantErr(t, err, tt.err)
		wantEqual(t, got, tt.want)
	}
}
