package db_test

import (
	"testing"

	"signalbox/db"
)

func TestProjectIsReadAsWritten(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	want := project("p", "owner")
	want.OwnerName = "First owner"
	got, err := d.GetProject(ctx, "p")
	wantErr(t, err, nil)
	wantEqual(t, got, want)
	_, err = d.GetProject(ctx, "none")
	wantErr(t, err, db.ErrNotFound)
	wantErr(t, d.CreateProject(ctx, project("p", "guest")), db.ErrExists)
	wantErr(t, d.CreateProject(ctx, project("r", "nobody")), db.ErrNotFound)
	_, err = d.GetProject(ctx, "r")
	wantErr(t, err, db.ErrNotFound)
}

func TestUpdateProjectChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	want, err := d.GetProject(ctx, "p")
	wantErr(t, err, nil)
	check := func(c db.ProjectUpdate) {
		t.Helper()
		wantErr(t, d.UpdateProject(ctx, c), nil)
		want.UpdatedAt = c.UpdatedAt
		got, err := d.GetProject(ctx, "p")
		wantErr(t, err, nil)
		wantEqual(t, got, want)
	}
	want.Name = "new"
	check(db.ProjectUpdate{ID: "p", Name: ptr("new"), UpdatedAt: at(20)})
	want.Description = ""
	check(db.ProjectUpdate{ID: "p", Description: ptr(""), UpdatedAt: at(21)})
	wantErr(t, d.UpdateProject(ctx, db.ProjectUpdate{ID: "none"}), db.ErrNotFound)
}

func TestDeleteProject(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateToken(ctx, token("t", "p", "b")))
	wantErr(t, d.DeleteProject(ctx, "none", false), db.ErrNotFound)
	wantErr(t, d.DeleteProject(ctx, "none", true), db.ErrNotFound)
	must(t, d.CreateCluster(ctx, cluster("one", "q")))
	wantErr(t, d.DeleteProject(ctx, "q", false), db.ErrInUse)
	must(t, d.DeleteCluster(ctx, "q", "one"))
	wantErr(t, d.DeleteProject(ctx, "q", false), nil)
	wantErr(t, d.DeleteProject(ctx, "p", false), db.ErrInUse)
	_, err := d.GetBroker(ctx, "p", "b")
	wantErr(t, err, nil)

	wantErr(t, d.DeleteProject(ctx, "p", true), nil)
	_, err = d.GetBroker(ctx, "p", "b")
	wantErr(t, err, db.ErrNotFound)
	_, err = d.TokenByHash(ctx, token("t", "p").Hash)
	wantErr(t, err, db.ErrNotFound)
	_, err = d.RoleOf(ctx, "p", "owner")
	wantErr(t, err, db.ErrNotFound)
	wantErr(t, d.DeleteUser(ctx, "owner"), nil)
}

func TestProjectsOf(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	older := project("older", "guest")
	older.CreatedAt = at(0)
	must(t, d.CreateProject(ctx, older), d.PutMember(ctx, "older", "owner", "viewer", at(8)))
	roles := func(id string) (got []string) {
		t.Helper()
		all, err := d.ProjectsOf(ctx, id)
		wantErr(t, err, nil)
		for _, p := range all {
			got = append(got, p.ID+":"+p.Role+":"+p.OwnerName)
		}
		return got
	}
	wantEqual(t, roles("owner"), []string{"older:viewer:First guest", "p:admin:First owner", "q:admin:First owner"})
	wantEqual(t, roles("guest"), []string{"older:admin:First guest"})
	wantEqual(t, roles("nobody"), []string(nil))

	all, err := d.AllProjects(ctx)
	wantErr(t, err, nil)
	wantEqual(t, []string{all[0].ID, all[1].ID, all[2].ID}, []string{"older", "p", "q"})
}

func TestCountInProjects(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.PutMember(ctx, "p", "guest", "viewer", at(8)), d.CreateBroker(ctx, connection("c", "p")))
	check := func(want []db.ProjectCounts, ids ...string) {
		t.Helper()
		got, err := d.CountInProjects(ctx, ids)
		wantErr(t, err, nil)
		wantEqual(t, got, want)
	}
	p, q := db.ProjectCounts{ProjectID: "p", Members: 2, Brokers: 2}, db.ProjectCounts{ProjectID: "q", Members: 1}
	check([]db.ProjectCounts{p, q}, "q", "none", "p")
	check([]db.ProjectCounts{q}, "q")
	check([]db.ProjectCounts{})
}
