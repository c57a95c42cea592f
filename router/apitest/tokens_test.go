package apitest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/handlers"
	"signalbox/router/apitest"
)

// testUser is a user and its session.
type testUser struct {
	id    string
	email string
	*apitest.Caller
}

func addTestUser(t *testing.T, api *apitest.API, name string) testUser {
	t.Helper()
	p := testUser{email: name + "@example.com"}
	var made handlers.Identifier
	api.Root.Post("/api/users", object{"firstname": name, "email": p.email, "password": "password of " + name}).Want(200).Decode(&made)
	p.id = made.ID
	p.Caller = api.LogIn(p.email, "password of "+name)
	return p
}

func tokensAt(api *apitest.API, rest string) string {
	return "/api/projects/" + api.Project + "/tokens" + rest
}

func memberAt(api *apitest.API, id string) string {
	return "/api/projects/" + api.Project + "/members/" + id
}

// createToken creates a token as a caller.
func createToken(t *testing.T, api *apitest.API, as *apitest.Caller, more object) (*apitest.Caller, handlers.NewTokenRecord) {
	t.Helper()
	body := object{"name": "ci", "role": "admin", "type": "unrestricted"}
	for name, v := range more {
		body[name] = v
	}
	var made handlers.NewTokenRecord
	as.Post(tokensAt(api, ""), body).Want(200).Decode(&made)
	return api.Bearer(made.Token), made
}

// TestTokenEndsWithItsMaker creates a token as an administrator of a project, and a
// token with that, and ends the membership in every possible way.
func TestTokenEndsWithItsMaker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for name, end := range map[string]func(eve testUser){
		"removed from the project":  func(eve testUser) { api.Root.Delete(memberAt(api, eve.id)).Want(204) },
		"deleted":                   func(eve testUser) { api.Root.Delete("/api/users/" + eve.id).Want(204) },
		"no longer allowed to sign": func(eve testUser) { api.Root.Put("/api/users/"+eve.id, object{"verified": false}).Want(204) },
	} {
		eve := addTestUser(t, api, strings.ReplaceAll(name, " ", "."))
		api.Root.Put(memberAt(api, eve.id), object{"role": "admin"}).Want(204)
		token, _ := createToken(t, api, eve.Caller, nil)
		child, _ := createToken(t, api, token, nil)
		child.Get(tokensAt(api, "")).Want(200)
		end(eve)
		for which, c := range map[string]*apitest.Caller{"token": token, "token that it made": child} {
			if answer := c.Get(tokensAt(api, "")); answer.Status != 401 {
				t.Errorf("%s: the %s of a maker that was %s got %d", name, which, name, answer.Status)
			}
		}
		if name == "removed from the project" {
			api.Root.Put(memberAt(api, eve.id), object{"role": "admin"}).Want(204)
			token.Get(tokensAt(api, "")).WantError(401, "UNAUTHORIZED")
		}
	}
}

// TestTokenOfAnAdministratorThatWas creates, as a platform administrator, a token of a
// project without being a member.
func TestTokenOfAnAdministratorThatWas(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	eve := addTestUser(t, api, "eve")
	api.Root.Put("/api/users/admins?email="+eve.email, nil).Want(204)
	token, _ := createToken(t, api, eve.Caller, nil)
	token.Get(tokensAt(api, "")).Want(200)
	api.Root.Delete("/api/users/admins?email=" + eve.email).Want(204)
	token.Get(tokensAt(api, "")).WantError(401, "UNAUTHORIZED")
}

// TestTokenDoesNoMoreThanItsMaker lowers the creator's role, and raises it again.
func TestTokenDoesNoMoreThanItsMaker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	eve := addTestUser(t, api, "eve")
	api.Root.Put(memberAt(api, eve.id), object{"role": "admin"}).Want(204)
	token, record := createToken(t, api, eve.Caller, nil)
	api.Root.Put(memberAt(api, eve.id), object{"role": "viewer"}).Want(204)
	token.Post(tokensAt(api, ""), object{"name": "x", "role": "viewer", "type": "unrestricted"}).WantError(403, "FORBIDDEN")
	token.Put("/api/projects/"+api.Project, object{"name": "mine"}).WantError(403, "FORBIDDEN")
	token.Get(tokensAt(api, "")).Want(200)
	var me handlers.MeRecord
	token.Get("/api/auth/me").Want(200).Decode(&me)
	if len(me.Projects) != 1 || me.Projects[0].Role != "viewer" {
		t.Errorf("the token says of itself %+v, want viewer", me.Projects)
	}
	if got := tokenRecordOf(t, api, record.ID); got.RoleID != "admin" || got.EffectiveRoleID != "viewer" || got.Issuer != "eve" || len(got.Hash) != 64 {
		t.Errorf("record %+v, want role admin, in effect viewer, by eve", got)
	}
	api.Root.Put(memberAt(api, eve.id), object{"role": "admin"}).Want(204)
	token.Put("/api/projects/"+api.Project, object{"name": "mine"}).Want(204)
}

func tokenRecordOf(t *testing.T, api *apitest.API, id string) handlers.TokenRecord {
	t.Helper()
	var all []handlers.TokenRecord
	api.Root.Get(tokensAt(api, "")).Want(200).Decode(&all)
	i := slices.IndexFunc(all, func(r handlers.TokenRecord) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no token %s in %+v", id, all)
	}
	return all[i]
}

// TestTokenMakesNoneThatLivesLonger creates tokens with a token.
func TestTokenMakesNoneThatLivesLonger(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	short, parent := createToken(t, api, api.Root, object{"name": "short", "valid_date": end.Format(time.RFC3339)})
	body := func(until string) object {
		return object{"name": "long", "role": "viewer", "type": "unrestricted", "valid_date": until}
	}
	for _, until := range []string{"", end.Add(time.Second).Format(time.RFC3339), "2999-01-01"} {
		answer := short.Post(tokensAt(api, ""), body(until)).WantError(400, "INVALID_REQUEST")
		if got := answer.Fields(); !slices.Equal(got, []string{"body.valid_date"}) {
			t.Errorf("until %q: named %v", until, got)
		}
	}
	child, first := createToken(t, api, short, object{"name": "first", "valid_date": end.Format(time.RFC3339)})
	grandchild, second := createToken(t, api, child, object{"name": "second", "role": "viewer", "valid_date": end.Add(-time.Minute).Format(time.RFC3339)})
	if got := tokenRecordOf(t, api, second.ID); got.ParentID == nil || *got.ParentID != first.ID {
		t.Errorf("record %+v, want parent %s", got, first.ID)
	}
	var ended handlers.RevokedToken
	api.Root.Delete(tokensAt(api, "/"+parent.ID)).Want(200).Decode(&ended)
	names := []string{}
	for _, d := range ended.Descendants {
		names = append(names, d.Name)
	}
	if !ended.Deleted || !slices.Equal(names, []string{"first", "second"}) {
		t.Errorf("revoking answers %+v, want first and second listed", ended)
	}
	for _, c := range []*apitest.Caller{short, child, grandchild} {
		c.Get(tokensAt(api, "")).WantError(401, "UNAUTHORIZED")
	}
}

// TestTokenIsTakenOver lets an administrator take over a token, with those that it
// created, whose creator leaves.
func TestTokenIsTakenOver(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	eve, ann := addTestUser(t, api, "eve"), addTestUser(t, api, "ann")
	api.Root.Put(memberAt(api, eve.id), object{"role": "admin"}).Want(204)
	api.Root.Put(memberAt(api, ann.id), object{"role": "admin"}).Want(204)
	first, _ := createToken(t, api, eve.Caller, nil)
	second, record := createToken(t, api, first, nil)
	third, _ := createToken(t, api, second, nil)
	taking := tokensAt(api, "/"+record.ID+"/owner")
	first.Put(taking, nil).WantError(403, "FORBIDDEN") // a token cannot become an owner
	ann.Put(tokensAt(api, "/unknown/owner"), nil).WantError(404, "NOT_FOUND")
	ann.Put(taking, nil).Want(204)
	if got := tokenRecordOf(t, api, record.ID); got.OwnerID != ann.id || got.ParentID != nil {
		t.Errorf("record %+v, want ann as its owner and no parent", got)
	}
	api.Root.Delete(memberAt(api, eve.id)).Want(204)
	first.Get(tokensAt(api, "")).WantError(401, "UNAUTHORIZED")
	second.Get(tokensAt(api, "")).Want(200)
	third.Get(tokensAt(api, "")).Want(200)
	api.Root.Delete(memberAt(api, ann.id)).Want(204)
	second.Get(tokensAt(api, "")).WantError(401, "UNAUTHORIZED")
	third.Get(tokensAt(api, "")).WantError(401, "UNAUTHORIZED")
}

// pendingRequest is a request whose header was sent and whose body is awaited: it was
// authorized.
type pendingRequest struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	body string
}

// sendHeader sends the header of a request and waits until the service requests the
// body, which it does after authorization.
func sendHeader(t *testing.T, api *apitest.API, token, method, path string, body object) *pendingRequest {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(api.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", method, path, token, len(text))
	a := &pendingRequest{t: t, conn: conn, in: bufio.NewReader(conn), body: string(text)}
	if line, err := a.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("got %q, %v, want to be asked for the body", line, err)
	}
	if _, err := a.in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return a
}

// finish sends the body and returns the status and the body of the response.
func (a *pendingRequest) finish() (int, string) {
	a.t.Helper()
	io.WriteString(a.conn, a.body) //nolint:errcheck // a later read fails otherwise
	resp, err := http.ReadResponse(a.in, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestTokenMadeWhileItsMakerIsRemoved removes the creator between authorization and the
// storing of the token, which would otherwise outlive the membership.
func TestTokenMadeWhileItsMakerIsRemoved(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for name, end := range map[string]func(eve testUser){
		"removed": func(eve testUser) { api.Root.Delete(memberAt(api, eve.id)).Want(204) },
		"lowered": func(eve testUser) { api.Root.Put(memberAt(api, eve.id), object{"role": "editor"}).Want(204) },
	} {
		for _, by := range []string{"user", "token"} {
			eve := addTestUser(t, api, name+"."+by)
			api.Root.Put(memberAt(api, eve.id), object{"role": "admin"}).Want(204)
			_, parent := createToken(t, api, eve.Caller, nil)
			secret := parent.Token
			if by == "user" {
				var session handlers.LoginRecord
				api.Anonymous().Post("/api/auth/login", object{"email": eve.email, "password": "password of " + name + "." + by}).Want(200).Decode(&session)
				secret = session.Token
			}
			making := sendHeader(t, api, secret, "POST", tokensAt(api, ""), object{"name": "late", "role": "admin", "type": "unrestricted"})
			end(eve)
			if status, body := making.finish(); status == 200 {
				t.Errorf("a %s whose maker was %s made a token: %s", by, name, body)
			}
		}
	}
	var all []handlers.TokenRecord
	api.Root.Get(tokensAt(api, "")).Want(200).Decode(&all)
	for _, record := range all {
		if record.Name == "late" {
			t.Errorf("the project has the token %+v", record)
		}
	}
}
