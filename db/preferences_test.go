package db_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/db"
)

func TestPreferencesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	wantPreferences(t, d, "guest", db.DefaultPreferences())
	must(t, d.UpdatePreferences(ctx, "guest", db.PreferencesUpdate{}))
	wantPreferences(t, d, "guest", db.DefaultPreferences())

	must(t, d.UpdatePreferences(ctx, "guest", db.PreferencesUpdate{
		Theme: ptr("dark"), Language: ptr("de"), TimeZone: ptr("Europe/Berlin"), Density: ptr("compact"), PageSize: ptr(100),
		Shortcuts: ptr(false), FirstStepsDismissed: ptr(true), Columns: map[string][]string{"clients": {"username", "roles"}}}))
	want := db.Preferences{Theme: "dark", Language: "de", TimeZone: "Europe/Berlin", Density: "compact", PageSize: 100,
		FirstStepsDismissed: true, Columns: map[string][]string{"clients": {"username", "roles"}}}
	wantPreferences(t, d, "guest", want)
	wantPreferences(t, d, "owner", db.DefaultPreferences())

	must(t, d.UpdatePreferences(ctx, "guest", db.PreferencesUpdate{Theme: ptr("light")}))
	want.Theme = "light"
	wantPreferences(t, d, "guest", want)
	wantErr(t, d.UpdatePreferences(ctx, "nobody", db.PreferencesUpdate{}), db.ErrNotFound)
}

func wantPreferences(t *testing.T, d *db.DB, user string, want db.Preferences) {
	t.Helper()
	got, err := d.GetPreferences(t.Context(), user)
	wantErr(t, err, nil)
	wantEqual(t, got, want)
}

func TestColumnsAreMergedByTable(t *testing.T) {
	t.Parallel()
	type tables = map[string][]string
	d, ctx := world(t), t.Context()
	for _, step := range []struct {
		change db.PreferencesUpdate
		want   tables
	}{
		{db.PreferencesUpdate{Columns: tables{"a": {"1", "2"}, "b": {"1"}}}, tables{"a": {"1", "2"}, "b": {"1"}}},
		{db.PreferencesUpdate{Columns: tables{"a": {"3"}}}, tables{"a": {"3"}, "b": {"1"}}},
		{db.PreferencesUpdate{Columns: tables{"a": {}, "c": {}}}, tables{"b": {"1"}}},
		{db.PreferencesUpdate{Columns: tables{"c": {"1"}}, ResetColumns: true}, tables{"c": {"1"}}},
		{db.PreferencesUpdate{ResetColumns: true}, tables{}},
	} {
		must(t, d.UpdatePreferences(ctx, "guest", step.change))
		p, err := d.GetPreferences(ctx, "guest")
		wantErr(t, err, nil)
		wantEqual(t, p.Columns, step.want)
	}
}

func TestColumnsAreBoundedInTotal(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	large := []string{strings.Repeat("x", db.MaxColumns/4)}
	for i := range 3 {
		must(t, d.UpdatePreferences(ctx, "guest", db.PreferencesUpdate{Columns: map[string][]string{fmt.Sprint(i): large}}))
	}
	wantErr(t, d.UpdatePreferences(ctx, "guest", db.PreferencesUpdate{Theme: ptr("dark"), Columns: map[string][]string{"3": large}}), db.ErrTooLarge)
	p, err := d.GetPreferences(ctx, "guest")
	wantErr(t, err, nil)
	wantEqual(t, len(p.Columns), 3)
	wantEqual(t, p.Theme, "system")
}

func TestPreferencesEndWithTheUser(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.UpdatePreferences(ctx, "guest", db.PreferencesUpdate{Theme: ptr("dark")}), d.DeleteUser(ctx, "guest"),
		d.CreateUser(ctx, user("guest")))
	wantPreferences(t, d, "guest", db.DefaultPreferences())
}
