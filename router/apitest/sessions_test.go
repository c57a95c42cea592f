package apitest_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/handlers"
	"signalbox/router/apitest"
)

const sessionsPath = "/api/auth/sessions"

var sessionIDPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// openSession logs a user in through a proxy on this machine that forwards the caller's address.
func openSession(t *testing.T, api *apitest.API, u testUser, password, address, agent string) *apitest.Caller {
	t.Helper()
	status, answer := requestLogin(t, api, http.Header{"X-Forwarded-For": {address}, "User-Agent": {agent}}, u.email, password)
	var session handlers.LoginRecord
	if err := json.Unmarshal(answer, &session); err != nil || status != 200 {
		t.Fatalf("log-in: %d %s, %v", status, answer, err)
	}
	return api.Bearer(session.Token)
}

// sessionsOf returns what lists the sessions, without ids and times, and the ids.
func sessionsOf(t *testing.T, as *apitest.Caller, path string) (list []handlers.SessionRecord, ids []string) {
	t.Helper()
	as.Get(path).Want(200).Decode(&list)
	before := time.Now()
	for i := range list {
		s := &list[i]
		if !sessionIDPattern.MatchString(s.ID) || s.ExpiresAt.Sub(s.CreatedAt) != 24*time.Hour || s.CreatedAt.After(before) {
			t.Errorf("session %+v, after one of %s", *s, before)
		}
		before = s.CreatedAt
		ids = append(ids, s.ID)
		s.ID, s.CreatedAt, s.ExpiresAt = "", time.Time{}, time.Time{}
	}
	return list, ids
}

// TestOwnSessions lists the sessions of a user, and ends one and then all others.
func TestOwnSessions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, behindProxy)
	eve := addTestUser(t, api, "eve")
	const password = "password of eve"
	phone := openSession(t, api, eve, password, "198.51.100.7", "Phone/1 "+strings.Repeat("x", 1000))
	office := openSession(t, api, eve, password, "2001:db8::7", `<b>"Office"`)
	want := []handlers.SessionRecord{
		{Address: "2001:db8::7", UserAgent: `<b>"Office"`, Current: true},
		{Address: "198.51.100.7", UserAgent: "Phone/1 " + strings.Repeat("x", 504)},
		{Address: "127.0.0.1", UserAgent: "Go-http-client/1.1"},
	}
	got, ids := sessionsOf(t, office, sessionsPath)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("sessions (-want +got):\n%s", diff)
	}
	_, again := sessionsOf(t, phone, sessionsPath)
	if diff := cmp.Diff(ids, again); diff != "" {
		t.Errorf("the ids are others (-want +got):\n%s", diff)
	}
	want[0].Current = false
	got, rootSees := sessionsOf(t, api.Root, "/api/users/"+eve.id+"/sessions")
	if diff := cmp.Diff(want, got) + cmp.Diff(ids, rootSees); diff != "" {
		t.Errorf("sessions as an administrator sees them (-want +got):\n%s", diff)
	}

	_, rootIDs := sessionsOf(t, api.Root, sessionsPath)
	for _, id := range []string{rootIDs[0], "0123456789abcdef", "x", ids[1][:15]} {
		office.Delete(sessionsPath+"/"+id).WantError(404, "NOT_FOUND")
	}
	api.Root.Get(sessionsPath).Want(200)
	office.Delete(sessionsPath + "/" + ids[1]).Want(204)
	phone.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
	office.Delete(sessionsPath+"/"+ids[1]).WantError(404, "NOT_FOUND")
	eve.Get("/api/auth/me").Want(200)
	office.Delete(sessionsPath).Want(204)
	eve.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
	if got, _ := sessionsOf(t, office, sessionsPath); len(got) != 1 || !got[0].Current {
		t.Errorf("got %+v, want the own session", got)
	}
	office.Delete(sessionsPath + "/" + ids[0]).Want(204) // the own one, as a log-out
	office.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")

	rows := auditOf(t, api.Root, auditPath, "actor="+eve.id+"&operation=endSession&outcome=done")
	if len(rows) != 2 || rows[0].Object != ids[1] || !strings.Contains(string(rows[0].Change), `"address":"198.51.100.7"`) {
		t.Errorf("audit log: %+v", rows)
	}
	wantAudit(t, auditOf(t, api.Root, auditPath, "operation=endOtherSessions"), `user eve: endOtherSessions  done 204`)
}

// TestSessionsAreForUsers checks who may list and end sessions.
func TestSessionsAreForUsers(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	eve, token := addTestUser(t, api, "eve"), api.Token("admin")
	for _, as := range []*apitest.Caller{token, api.Anonymous()} {
		status, code := 403, "FORBIDDEN"
		if as != token {
			status, code = 401, "UNAUTHORIZED"
		}
		as.Get(sessionsPath).WantError(status, code)
		as.Delete(sessionsPath).WantError(status, code)
		as.Delete(sessionsPath+"/0123456789abcdef").WantError(status, code)
		as.Put("/api/auth/me", object{}).WantError(status, code)
	}
	eve.Get("/api/users/"+eve.id+"/sessions").WantError(403, "FORBIDDEN")
	api.Root.Get("/api/users/unknown/sessions").WantError(404, "NOT_FOUND")
}

// TestUpdateMe changes the name of the caller, and nothing else.
func TestUpdateMe(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	eve := addTestUser(t, api, "eve")
	name := func() string {
		var me handlers.MeRecord
		eve.Get("/api/auth/me").Want(200).Decode(&me)
		return strings.Join([]string{me.Name, me.FirstName, me.LastName, me.Email}, "|")
	}
	for _, c := range []struct {
		body object
		want string
	}{
		{object{}, "eve|eve||eve@example.com"},
		{object{"firstname": "Eve", "lastname": "Moneypenny"}, "Eve Moneypenny|Eve|Moneypenny|eve@example.com"},
		{object{"firstname": ""}, "Moneypenny||Moneypenny|eve@example.com"},
		{object{"lastname": "", "email": "root@example.com", "root": true, "verified": false}, "eve@example.com|||eve@example.com"},
	} {
		eve.Put("/api/auth/me", c.body).Want(204)
		if got := name(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.body, got, c.want)
		}
	}
	eve.Put("/api/auth/me", object{"firstname": 7, "lastname": nil}).WantError(400, "INVALID_REQUEST")
	wantAudit(t, auditOf(t, api.Root, auditPath, "actor="+eve.id+"&operation=updateMe&outcome=done")[1:2],
		`user eve: updateMe  done 204  {"before":{"firstname":"eve","lastname":""},"after":{"firstname":"Eve","lastname":"Moneypenny"}}`)
}
