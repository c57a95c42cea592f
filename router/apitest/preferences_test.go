package apitest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/handlers"
	"signalbox/router/apitest"
)

const preferencesPath = "/api/auth/preferences"

var defaultPreferences = handlers.PreferencesRecord{Theme: "system", Density: "normal", PageSize: 50, Shortcuts: true, Columns: map[string][]string{}}

func wantPreferences(t *testing.T, as *apitest.Caller, want handlers.PreferencesRecord) {
	t.Helper()
	var got handlers.PreferencesRecord
	as.Get(preferencesPath).Want(200).Decode(&got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("preferences (-want +got):\n%s", diff)
	}
}

// TestPreferences changes every member, resets every member, and restarts the service.
func TestPreferences(t *testing.T) {
	t.Parallel()
	dir := apitest.In(t.TempDir())
	api := apitest.New(t, dir)
	wantPreferences(t, api.Root, defaultPreferences)
	api.Root.Put(preferencesPath, object{}).Want(204)
	wantPreferences(t, api.Root, defaultPreferences)
	api.Root.Put(preferencesPath, object{"theme": "dark", "language": "fr", "time_zone": "America/Argentina/Ushuaia", "density": "comfortable",
		"page_size": 25, "shortcuts": false, "first_steps_dismissed": true,
		"columns": object{"clients": []string{"username", "roles"}, "sessions": []string{"clientid"}}}).Want(204)
	want := handlers.PreferencesRecord{Theme: "dark", Language: "fr", TimeZone: "America/Argentina/Ushuaia", Density: "comfortable", PageSize: 25,
		FirstStepsDismissed: true, Columns: map[string][]string{"clients": {"username", "roles"}, "sessions": {"clientid"}}}
	wantPreferences(t, api.Root, want)

	eve := addTestUser(t, api, "eve")
	wantPreferences(t, eve.Caller, defaultPreferences)
	eve.Put(preferencesPath, object{"theme": "light"}).Want(204)

	api.Root.Put(preferencesPath, object{"theme": nil, "columns": object{"clients": []string{}, "roles": []string{"rolename"}}}).Want(204)
	want.Theme, want.Columns = "system", map[string][]string{"sessions": {"clientid"}, "roles": {"rolename"}}
	wantPreferences(t, api.Root, want)
	api.Stop()
	api = apitest.New(t, dir)
	wantPreferences(t, api.Root, want)
	reset := object{}
	for _, name := range []string{"theme", "language", "time_zone", "density", "page_size", "shortcuts", "first_steps_dismissed", "columns"} {
		reset[name] = nil
	}
	api.Root.Put(preferencesPath, reset).Want(204)
	wantPreferences(t, api.Root, defaultPreferences)
}

func TestPreferencesAreForUsers(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	token := api.Token("admin")
	token.Get(preferencesPath).WantError(403, "FORBIDDEN")
	token.Put(preferencesPath, object{}).WantError(403, "FORBIDDEN")
	api.Anonymous().Get(preferencesPath).WantError(401, "UNAUTHORIZED")
}

func TestInvalidPreferencesChangeNothing(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	many, long := object{}, make([]string, 51)
	for i := range 101 {
		many[strconv.Itoa(i)] = []string{"a"}
	}
	for i := range long {
		long[i] = strconv.Itoa(i)
	}
	for name, c := range map[string]struct {
		body object
		want []string
	}{
		"theme":             {object{"theme": "blue"}, []string{"body.theme"}},
		"language":          {object{"language": "it"}, []string{"body.language"}},
		"density":           {object{"density": ""}, []string{"body.density"}},
		"page size":         {object{"page_size": 30}, []string{"body.page_size"}},
		"shortcuts":         {object{"shortcuts": "no"}, []string{"body.shortcuts"}},
		"two at once":       {object{"theme": 1, "time_zone": "Mars/Olympus"}, []string{"body.theme", "body.time_zone"}},
		"the machine's":     {object{"time_zone": "Local"}, []string{"body.time_zone"}},
		"another variant":   {object{"time_zone": "right/Europe/Berlin"}, []string{"body.time_zone"}},
		"not below":         {object{"time_zone": "Europe/../Europe/Berlin"}, []string{"body.time_zone"}},
		"an abbreviation":   {object{"time_zone": "CEST"}, []string{"body.time_zone"}},
		"a column's name":   {object{"columns": object{"a": []string{"<b>"}}}, []string{"body.columns"}},
		"an empty column":   {object{"columns": object{"a": []string{""}}}, []string{"body.columns"}},
		"a table's name":    {object{"columns": object{"ä": []string{"b"}}}, []string{"body.columns"}},
		"a long name":       {object{"columns": object{strings.Repeat("a", 41): []string{"b"}}}, []string{"body.columns"}},
		"many columns":      {object{"columns": object{"a": long}}, []string{"body.columns"}},
		"many tables":       {object{"columns": many}, []string{"body.columns"}},
		"columns of a type": {object{"columns": object{"a": "b"}}, []string{"body.columns.a"}},
	} {
		c.body["first_steps_dismissed"] = true
		if got := api.Root.Put(preferencesPath, c.body).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, c.want) {
			t.Errorf("%s: named %v, want %v", name, got, c.want)
		}
	}
	wantPreferences(t, api.Root, defaultPreferences)
	for _, zone := range []string{"", "UTC", "Etc/GMT+12", "Asia/Calcutta", "Pacific/Chatham"} {
		api.Root.Put(preferencesPath, object{"time_zone": zone}).Want(204)
	}
}

// TestPreferencesAreBoundedInTotal stores columns one table at a time.
func TestPreferencesAreBoundedInTotal(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	columns := make([]string, 50)
	for i := range columns {
		columns[i] = strings.Repeat("x", 38) + strconv.Itoa(10+i)
	}
	stored := 0
	for ; ; stored++ {
		answer := api.Root.Put(preferencesPath, object{"columns": object{strconv.Itoa(stored): columns}})
		if answer.Status == 400 {
			if got := answer.WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{"body.columns"}) {
				t.Errorf("named %v", got)
			}
			break
		}
		answer.Want(204)
	}
	if stored < 5 || stored > 10 { // of about 2150 bytes each
		t.Errorf("%d tables were stored", stored)
	}
	api.Root.Put(preferencesPath, object{"columns": nil}).Want(204)
	wantPreferences(t, api.Root, defaultPreferences)
}
