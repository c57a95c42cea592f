package apitest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/handlers"
	"signalbox/router/apitest"
)

func TestUsersAndAdmins(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var created handlers.Identifier
	api.Root.Post("/api/users", object{"firstname": "Ada", "lastname": "Byron", "email": "ada@example.com", "password": "analytical"}).
		Want(200).Decode(&created)
	api.Root.Post("/api/users", object{"email": "ADA@example.com", "password": "analytical"}).WantError(400, "ALREADY_EXISTS")

	var user handlers.UserRecord
	api.Root.Get("/api/users/" + created.ID).Want(200).Decode(&user)
	if user.Name != "Ada Byron" || user.Email != "ada@example.com" {
		t.Errorf("user: got %+v", user)
	}
	var list handlers.UserList
	api.Root.Get("/api/users?page=1&pageSize=1").Want(200).Decode(&list)
	if list.Total != 2 || list.Page != 1 || list.PageSize != 1 || len(list.Data) != 1 || list.Data[0].ID != created.ID {
		t.Errorf("second page of users: got %+v", list)
	}

	ada := api.LogIn("ada@example.com", "analytical")
	ada.Get("/api/users").WantError(403, "FORBIDDEN")
	api.Root.Delete("/api/users/admins?email="+apitest.RootEmail).WantError(400, "LAST_ADMIN")
	api.Root.Put("/api/users/admins?email=nobody@example.com", nil).WantError(400, "NOT_FOUND")
	api.Root.Put("/api/users/admins?email=ada@example.com", nil).Want(204)
	var admins handlers.AdminList
	ada.Get("/api/users/admins").Want(200).Decode(&admins)
	if admins.Total != 2 || !admins.Roots[0].IsRemovable {
		t.Errorf("admins: got %+v, want two that are removable", admins)
	}
	api.Root.Delete("/api/users/admins?email=ada@example.com").Want(204)
	ada.Get("/api/users").WantError(403, "FORBIDDEN")

	api.Root.Put("/api/users/"+created.ID, object{"password": "difference engine", "lastname": "Lovelace"}).Want(204)
	ada.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
	api.LogIn("ada@example.com", "difference engine")
	api.Root.Delete("/api/users/" + created.ID).Want(204)
	api.Root.Delete("/api/users/"+created.ID).WantError(404, "NOT_FOUND")
}

func TestWhoMayNotLogIn(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post("/api/users", object{"email": "new@example.com", "password": "password1", "verified": false}).Want(200)
	api.Root.Post("/api/users", object{"email": "sso@example.com", "password": "password1", "ssoType": "sso"}).Want(200)
	wording := ""
	for _, credentials := range []object{
		{"email": apitest.RootEmail, "password": "wrong"}, {"email": "nobody@example.com", "password": "password1"},
		{"email": "new@example.com", "password": "password1"}, {"email": "sso@example.com", "password": "password1"},
	} {
		e := api.Anonymous().Post("/api/auth/login", credentials).WantError(401, "UNAUTHORIZED").Error()
		if wording == "" {
			wording = e.Message
		}
		if e.Message != wording {
			t.Errorf("%s is told apart: %q and %q", credentials["email"], e.Message, wording)
		}
	}
}

func TestChangePasswordEndsOtherSessions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	other := api.LogIn(apitest.RootEmail, apitest.RootPassword)
	api.Root.Put("/api/auth/password", object{"current": "wrong", "new": "new password"}).WantError(400, "INVALID_REQUEST")
	api.Root.Put("/api/auth/password", object{"current": apitest.RootPassword, "new": "new password"}).Want(204)
	other.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
	api.Root.Get("/api/auth/me").Want(200)
	api.Root.Post("/api/auth/logout", nil).Want(204)
	api.Root.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	at := "/api/projects/" + api.Project + "/tokens"
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	var made handlers.NewTokenRecord
	api.Root.Post(at, object{"name": "ci", "role": "editor", "type": "restricted", "brokers": []string{api.Embedded},
		"valid_date": tomorrow.Format(time.RFC3339)}).Want(200).Decode(&made)
	if !strings.HasPrefix(made.Token, "sbx_") || made.ValidDate != tomorrow.UnixMilli() || made.RoleID != "editor" || len(made.Hash) != 64 {
		t.Errorf("token: got %+v", made)
	}
	list := api.Root.Get(at).Want(200)
	if strings.Contains(string(list.Body), made.Token) {
		t.Error("the list shows the token's value")
	}
	ci := api.Bearer(made.Token)
	ci.Get(api.At("/clients")).Want(200)
	ci.Get("/api/projects").Want(200)
	ci.Get(at).WantError(403, "FORBIDDEN")
	ci.Post("/api/projects", object{"name": "mine"}).WantError(403, "FORBIDDEN")
	ci.Get(api.BrokerAt("0197-unknown", "/clients")).WantError(403, "FORBIDDEN")

	var deleted handlers.Deleted
	api.Root.Delete(at + "/" + made.ID).Want(200).Decode(&deleted)
	if !deleted.Deleted {
		t.Error("the flag says that nothing was deleted")
	}
	ci.Get(api.At("/clients")).WantError(401, "UNAUTHORIZED")
	api.Root.Delete(at+"/"+made.ID).WantError(404, "NOT_FOUND")

	for name, c := range map[string]struct {
		body  object
		field string
	}{
		"restricted admin":       {object{"name": "x", "role": "admin", "type": "restricted", "brokers": []string{api.Embedded}}, "body.role"},
		"restricted to nothing":  {object{"name": "x", "role": "viewer", "type": "restricted"}, "body.brokers"},
		"unknown broker":         {object{"name": "x", "role": "viewer", "type": "restricted", "brokers": []string{"x"}}, "body.brokers[0]"},
		"valid in the past":      {object{"name": "x", "role": "viewer", "type": "unrestricted", "valid_date": "2001-01-01"}, "body.valid_date"},
		"valid until some day":   {object{"name": "x", "role": "viewer", "type": "unrestricted", "valid_date": "soon"}, "body.valid_date"},
		"role of a root":         {object{"name": "x", "role": "root", "type": "unrestricted"}, "body.role"},
		"neither of both types":  {object{"name": "x", "role": "viewer", "type": "loose"}, "body.type"},
		"without a name to know": {object{"name": "", "role": "viewer", "type": "unrestricted"}, "body.name"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			if got := api.Root.Post(at, c.body).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{c.field}) {
				t.Errorf("bad fields: got %q, want %q", got, c.field)
			}
		})
	}
}

// memberOf returns the record of a member of the project.
func memberOf(t *testing.T, api *apitest.API, userID string) handlers.MemberRecord {
	t.Helper()
	var list []handlers.MemberRecord
	api.Root.Get("/api/projects/" + api.Project + "/members").Want(200).Decode(&list)
	i := slices.IndexFunc(list, func(m handlers.MemberRecord) bool { return m.UserID == userID })
	if i < 0 {
		t.Fatalf("members %+v, want one with the id %s", list, userID)
	}
	return list[i]
}

func TestProjectsAndMembers(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var ada, me handlers.Identifier
	api.Root.Get("/api/auth/me").Want(200).Decode(&me)
	api.Root.Post("/api/users", object{"email": "ada@example.com", "password": "analytical"}).Want(200).Decode(&ada)
	session := api.LogIn("ada@example.com", "analytical")

	var project handlers.ProjectRecord
	session.Post("/api/projects", object{"name": "engine", "description": "Difference"}).Want(200).Decode(&project)
	if project.Role != "admin" || project.Owner.UserID != ada.ID {
		t.Errorf("new project: got %+v", project)
	}
	var projects []handlers.ProjectRecord
	session.Get("/api/projects").Want(200).Decode(&projects)
	if len(projects) != 1 || projects[0].ID != project.ID {
		t.Errorf("projects of the user: got %+v, want just hers", projects)
	}
	session.Get("/api/projects/"+api.Project).WantError(403, "FORBIDDEN")
	session.Get("/api/projects/0197-unknown").WantError(404, "NOT_FOUND")

	members := "/api/projects/" + api.Project + "/members/"
	before := time.Now().Truncate(time.Millisecond)
	api.Root.Put(members+ada.ID, object{"role": "viewer"}).Want(204)
	first := memberOf(t, api, ada.ID)
	if first.AddedAt.Before(before) || first.AddedAt.After(time.Now()) {
		t.Errorf("the member was added at %v, want a time since %v", first.AddedAt, before)
	}
	api.Root.Put(members+ada.ID, object{"role": "editor"}).Want(204)
	if again := memberOf(t, api, ada.ID); again.Role != "editor" || !again.AddedAt.Equal(first.AddedAt) {
		t.Errorf("after a change of the role: %+v, want it added at %v", again, first.AddedAt)
	}
	if owner := memberOf(t, api, me.ID); owner.AddedAt.IsZero() {
		t.Errorf("the owner: %+v, want the time at which the project was created", owner)
	}
	session.Get(api.At("/clients")).Want(200)
	session.Delete(members+ada.ID).WantError(403, "FORBIDDEN")
	api.Root.Put(members+"0197-unknown", object{"role": "editor"}).WantError(404, "NOT_FOUND")
	api.Root.Delete(members + ada.ID).Want(204)
	session.Get(api.At("/clients")).WantError(403, "FORBIDDEN")
	api.Root.Delete("/api/projects/"+project.ID+"/members/"+ada.ID).WantError(400, "CONFLICT")

	session.Put("/api/projects/"+project.ID, object{"name": "analytical engine", "description": nil}).Want(204)
	var settings handlers.ProjectSettings
	decodeProject(t, session.Get("/api/projects/"+project.ID+"/settings").Want(200), &settings)
	if settings.Project.Name != "analytical engine" || settings.Project.Description != "" {
		t.Errorf("settings: got %+v", settings.Project)
	}
	session.Post("/api/projects/"+project.ID+"/brokers", object{"name": "b", "url": "mqtt://127.0.0.1:1"}).Want(200)
	session.Delete("/api/projects/"+project.ID).WantError(400, "CONFLICT")
	session.Delete("/api/projects/" + project.ID + "?purge=true").Want(204)
	session.Get("/api/projects/"+project.ID).WantError(404, "NOT_FOUND")
	api.Root.Delete("/api/projects/"+api.Project+"?purge=true").WantError(400, "CONFLICT")
}

// TestProjects_counts checks that the list of projects has the numbers of members and brokers if it is
// asked for them: those of the other lists, of the projects that the caller sees.
func TestProjects_counts(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	const all, counted = "/api/projects", "/api/projects?counts=true"
	var ada handlers.Identifier
	api.Root.Post("/api/users", object{"email": "ada@example.com", "password": "analytical"}).Want(200).Decode(&ada)
	session := api.LogIn("ada@example.com", "analytical")
	if got := strings.TrimSpace(string(session.Get(counted).Want(200).Body)); got != "[]" {
		t.Errorf("the list of a user who is a member of no project: %s", got)
	}
	shared := all + "/" + api.Project
	api.Root.Post(shared+"/brokers", object{"name": "b", "url": "mqtt://127.0.0.1:1"}).Want(200)
	api.Root.Put(shared+"/members/"+ada.ID, object{"role": "viewer"}).Want(204)
	session.Post(all, object{"name": "engine"}).Want(200)
	api.Root.Post(all, object{"name": "elsewhere"}).Want(200)

	for _, c := range []struct {
		name   string
		caller *apitest.Caller
		want   string
	}{
		{"administrator", api.Root, "default 2 2, engine 1 0, elsewhere 1 0"},
		{"member", session, "default 2 2, engine 1 0"},
		{"token", api.Token("viewer"), "default 2 2"},
		{"restricted token", api.Token("viewer", api.Embedded), "default 2 1"},
	} {
		var list []handlers.ListedProject
		c.caller.Get(counted).Want(200).Decode(&list)
		var got []string
		for _, p := range list {
			if p.Members == nil || p.Brokers == nil {
				t.Fatalf("%s: %s lacks a number", c.name, p.Name)
			}
			got = append(got, fmt.Sprintf("%s %d %d", p.Name, *p.Members, *p.Brokers))
			if n := c.caller.Get(all + "/" + p.ID + "/brokers").Want(200).Header.Get("X-Total-Count"); n != strconv.Itoa(*p.Brokers) {
				t.Errorf("%s: %d brokers in %s, listBrokers has %s", c.name, *p.Brokers, p.Name, n)
			}
			if n := api.Root.Get(all + "/" + p.ID + "/members").Want(200).Header.Get("X-Total-Count"); n != strconv.Itoa(*p.Members) {
				t.Errorf("%s: %d members in %s, listMembers has %s", c.name, *p.Members, p.Name, n)
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		for _, path := range []string{all, all + "?counts=false"} {
			if body := string(c.caller.Get(path).Want(200).Body); strings.Contains(body, `"members"`) || strings.Contains(body, `"brokers"`) {
				t.Errorf("%s: %s has numbers: %s", c.name, path, body)
			}
		}
	}
	api.Root.Get(all+"?counts=2").WantError(400, "INVALID_REQUEST")

	page := api.Browser("ada@example.com", "analytical")
	page.Want(page.Get("/projects"), 200, "Members", "Brokers", `<td class="number"><span>2</span></td><td class="number"><span>2</span></td>`)
}

// decodeProject decodes the project of the settings; services have no Go type to decode
// into.
func decodeProject(t *testing.T, a *apitest.Response, into *handlers.ProjectSettings) {
	t.Helper()
	var parts struct {
		Project  json.RawMessage
		Services []json.RawMessage
	}
	a.Decode(&parts)
	if err := json.Unmarshal(parts.Project, &into.Project); err != nil {
		t.Fatal(err)
	}
}
