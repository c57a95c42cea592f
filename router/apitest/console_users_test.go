package apitest_test

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// TestConsoleOwnRights checks that the console names what a change takes from the person who
// makes it, and offers no deletion that the API refuses.
func TestConsoleOwnRights(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	var me, other struct{ ID, Email string }
	a.Root.Get("/api/auth/me").Want(200).Decode(&me)
	a.Root.Post("/api/users", object{"email": "ada@example.com", "password": apitest.RootPassword, "firstname": "Ada"}).Want(200).Decode(&other)
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)

	b.Lacks(b.Want(b.Get("/users/"+me.ID+"/delete"), 200, "owns projects", "/p/"+a.Project+"/settings", "default"), "class=\"danger\"")
	b.Lacks(b.Want(b.Get("/users/"+other.ID+"/delete"), 200, "class=\"danger\""), "owns projects", "your own")

	a.Root.Put("/api/users/admins?"+url.Values{"email": {"ada@example.com"}}.Encode(), nil).Want(204)
	ada := a.Browser("ada@example.com", apitest.RootPassword)
	ada.Want(ada.Get("/users/"+other.ID+"/delete"), 200, "class=\"danger\"", "your own account")
	ada.Want(ada.Get("/administrators/remove?email=ADA%40example.com"), 200, "your own rights")
	b.Lacks(b.Get("/administrators/remove?email=ada%40example.com"), "your own")

	remove := b.Project("/members/remove?name=Ada&user=" + other.ID)
	ada.Lacks(ada.Want(ada.Get(remove), 200, "Ada is a platform administrator and can still use"), "can no longer")
	b.Lacks(b.Want(b.Get(remove), 200, "Ada is a platform administrator and can still use"), "can no longer")
	a.Root.Delete("/api/users/admins?email=ada%40example.com").Want(204)
	b.Lacks(b.Want(b.Get(remove), 200, "Ada can no longer use"), "your own", "still")
}

// TestConsoleUserSessions checks that the users have the time at which they were seen, and that one
// of them is signed out everywhere; who ends the own sessions keeps this one.
func TestConsoleUserSessions(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	var me, ada struct{ ID string }
	a.Root.Get("/api/auth/me").Want(200).Decode(&me)
	a.Root.Post("/api/users", object{"email": "ada@example.com", "password": apitest.RootPassword, "firstname": "Ada"}).Want(200).Decode(&ada)
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)
	lastSeen := regexp.MustCompile(`ada@example\.com</span></td><td class="number"><span>0</span></td><td class="number"><span>0</span></td><td>(<time|–)`)
	seen := func() string {
		return append(lastSeen.FindStringSubmatch(b.Want(b.Get("/users"), 200, "Last seen").Text), "", "")[1]
	}
	if at := seen(); at != "–" {
		t.Errorf("a user who never logged in was seen: %q", at)
	}
	own, other := a.Browser("ada@example.com", apitest.RootPassword), a.LogIn(apitest.RootEmail, apitest.RootPassword)
	if at := seen(); at != "<time" {
		t.Errorf("a user who logged in was not seen: %q", at)
	}

	b.Want(b.Get("/users"), 200, `aria-label="Sessions: Ada"`)
	b.Lacks(b.Want(b.Get("/users/"+ada.ID+"/sessions"), 200, "<h1 id=\"sessions\">Sessions of Ada</h1>", "Go-http-client/1.1", "<code>127.0.0.1</code>",
		"Ada (ada@example.com) is signed out everywhere", "class=\"danger\""), "this session")
	own.Want(own.Get("/account"), 200, "ada@example.com")
	b.Want(b.Post("/users/"+ada.ID+"/sessions", nil), 200, "The sessions of “ada@example.com” were ended")
	own.Want(own.Get("/account"), 200, "<h1>Sign in</h1>")
	b.Lacks(b.Want(b.Get("/users/"+ada.ID+"/sessions"), 200, "Ada (ada@example.com) is not signed in anywhere", "Back to the users"), "class=\"danger\"", "<table")
	b.Want(b.Get("/users/"+me.ID+"/sessions"), 200, "you stay signed in here", "this session")
	b.Want(b.Post("/users/"+me.ID+"/sessions", nil), 200, "were ended")
	other.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
	a.Root.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
	a.LogIn("ada@example.com", apitest.RootPassword).Delete("/api/users/"+me.ID+"/sessions").WantError(403, "FORBIDDEN")
}

// TestConsoleAccount changes the own name, and ends a session that another program has begun and then
// all others, each after a question.
func TestConsoleAccount(t *testing.T) {
	t.Parallel()
	a := apitest.New(t, behindProxy)
	eve := addTestUser(t, a, "eve")
	const password = "password of eve"
	phone := openSession(t, a, eve, password, "198.51.100.7", `<b>"Phone"`+"\u202e")
	openSession(t, a, eve, password, "2001:db8::7", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	b := a.Browser(eve.email, password)

	b.Want(b.Get("/account"), 200, `name="firstname" value="eve"`, `name="lastname" value=""`)
	b.Want(b.Post("/account", url.Values{"do": {"name"}, "firstname": {""}, "lastname": {"<i>Moneypenny"}}), 200,
		"Your name was saved", `name="firstname" value=""`, `name="lastname" value="&lt;i&gt;Moneypenny"`)

	sessions := b.Want(b.Get("/account"), 200, `&lt;b&gt;&#34;Phone&#34;⟨U&#43;202E⟩</span></th><td><code>198.51.100.7</code>`, "Firefox, Linux</span></th><td><code>2001:db8::7</code>",
		"Go-http-client/1.1</span><p><span class=\"state good\">", "this session", "End all others").Text
	ends := regexp.MustCompile(`href="\./(account/sessions/[0-9a-f]{16}/end)" data-dialog>End<span class="hidden-text"> ([^<]*)<`).FindAllStringSubmatch(sessions, -1)
	if len(ends) != 3 || ends[1][2] != "&lt;b&gt;&#34;Phone&#34;⟨U&#43;202E⟩ 198.51.100.7" {
		t.Fatalf("sessions that can be ended: %q", ends)
	}
	end := "/" + ends[1][1]
	b.Want(b.Get(end), 200, "<h1>End session</h1>", "&lt;b&gt;&#34;Phone", "198.51.100.7", "class=\"danger\"")
	phone.Get("/api/auth/me").Want(200)
	b.Lacks(b.Want(b.Post(end, nil), 200, "The session was ended"), "198.51.100.7")
	phone.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
	for name, p := range map[string]*apitest.Page{"the question": b.Get(end), "the answer": b.Post(end, nil)} {
		if p.Path != "/account" {
			t.Errorf("%s about a session that has ended leads to %s", name, p.Path)
		}
	}

	b.Want(b.Get("/account/sessions/end"), 200, "signed out everywhere but here", "class=\"danger\"")
	eve.Get("/api/auth/me").Want(200)
	b.Lacks(b.Want(b.Post("/account/sessions/end", nil), 200, "Your other sessions were ended", "this session"), "End all others", "2001:db8::7")
	eve.Get("/api/auth/me").WantError(401, "UNAUTHORIZED")
}

// TestConsoleVerifyAudit checks that the console verifies the audit log when asked to, and names the
// row that was changed.
func TestConsoleVerifyAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := apitest.New(t, apitest.In(dir))
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)
	const page = "/audit/verify"
	b.Want(b.Get("/audit"), 200, `href="./audit/verify"`)
	b.Lacks(b.Want(b.Get(page), 200, "All rows are read"), "<dt>Result")
	b.Want(b.Post(page, nil), 200, "<dt>Result", "Intact: rows 1 to ", `class="state good"`, "Checkpoints that agree")
	other := a.Member("admin")
	other.Want(other.Post(page, nil), 403)

	changeDatabase(t, dir, "UPDATE audit SET address = '192.0.2.9' WHERE seq = 2")
	b.Lacks(b.Want(b.Post(page, nil), 200, "The log was changed", `class="state bad"`, "changed at row 2: its hash does not fit"), "Intact")
}

// changeDatabase changes the database of a service behind its back.
func changeDatabase(t *testing.T, dir, statement string) {
	t.Helper()
	file, err := sql.Open("sqlite", filepath.Join(dir, "signalbox.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was written
	if _, err := file.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestConsoleExpiredTokens revokes all tokens that are no longer valid, after a question with their
// number, and no other.
func TestConsoleExpiredTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := apitest.New(t, apitest.In(dir))
	for _, name := range []string{"for-ever", "valid", "old-1", "old-2"} {
		body := object{"name": name, "role": "viewer", "type": "unrestricted"}
		if name != "for-ever" {
			body["valid_date"] = "2100-01-31"
		}
		a.Root.Post("/api/projects/"+a.Project+"/tokens", body).Want(200)
	}
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)
	list, page := b.Project("/tokens"), b.Project("/tokens/expired")
	b.Lacks(b.Want(b.Get(list), 200, "old-1"), "expired")
	changeDatabase(t, dir, "UPDATE tokens SET valid_until = 1000 WHERE name LIKE 'old-%'")
	viewer := a.Member("viewer")
	viewer.Lacks(viewer.Want(viewer.Get(list), 200, "old-1"), "tokens/expired")
	viewer.Want(viewer.Post(page, nil), 403)
	b.Want(b.Get(list), 200, "Revoke 2 expired tokens", `/tokens/expired"`)
	b.Lacks(b.Want(b.Get(page), 200, "2 API tokens are no longer valid", "old-1", "old-2"), "for-ever")
	b.Lacks(b.Want(b.Post(page, nil), 200, "Expired API tokens revoked: 2", "for-ever", ">valid<"), "old-1", "old-2", "Revoke 2")
}

// TestConsoleLeave_of_the_leader checks that the console states what it means to remove the
// leader of a cluster, and does not say it of another node.
func TestConsoleLeave_of_the_leader(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 3)
	made := g.create(3)
	b := g.Browser(apitest.RootEmail, apitest.RootPassword)
	leave := b.Project("/clusters/" + made.ID + "/leave?node=")
	leaders := 0
	for _, node := range []string{"1", "2", "3"} {
		if p := b.Want(b.Get(leave+node), 200, "2 nodes remain"); strings.Contains(p.Text, "is the leader") {
			leaders++
		}
	}
	if leaders != 1 {
		t.Errorf("%d of 3 nodes are said to be the leader", leaders)
	}
}

// TestConsoleTables checks that tables show the topic before what a narrow screen hides, and
// that each name in them has its label.
func TestConsoleTables(t *testing.T) {
	t.Parallel()
	c := openConsole(apitest.New(t), apitest.RootEmail, apitest.RootPassword)
	for page, heads := range map[string][]string{
		c.at("check", "username", "admin", "action", "publish", "topic", "a"): {"Topic or filter", "Type"},
		c.at("client", "username", "admin"):                                   {"Topic or filter", "Type"},
	} {
		text, from := c.page(page), 0
		for _, head := range heads {
			i := strings.Index(text[from:], `<th scope="col">`+head+`</th>`)
			if i < 0 {
				t.Errorf("%s: no column %q at its place", page, head)
				break
			}
			from += i
		}
	}
	c.has(c.at("ttl"), "/topics/all\"", `/ttl" aria-current="page"`)
	c.has(c.at("client", "username", "admin"), "<dd>–</dd>")
}

// TestConsoleMembers checks that only users who are no members are offered, none is chosen, and that the
// list has the time since which a user is a member, a dash where that is not known.
func TestConsoleMembers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := apitest.New(t, apitest.In(dir))
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)
	b.Lacks(b.Want(b.Get(b.Project("/members/new")), 200, "All users are members", `/users/new"`), apitest.RootEmail+"</option>", "<select")
	a.Root.Post("/api/users", object{"email": "ada@example.com", "password": apitest.RootPassword, "firstname": "Ada"}).Want(200)
	b.Lacks(b.Want(b.Get(b.Project("/members/new")), 200, "<select id=\"f-user\" name=\"user\" required", "Choose a user", "Ada · ada@example.com</option>"), apitest.RootEmail+"</option>", "All users", " checked")

	since := regexp.MustCompile(`<span>` + regexp.QuoteMeta(apitest.RootEmail) + `</span></td><td>(<time|–)`)
	want := func(cell string) {
		t.Helper()
		text := b.Want(b.Get(b.Project("/members")), 200, ">Since<").Text
		if m := since.FindStringSubmatch(text); m == nil || m[1] != cell {
			t.Errorf("the row of the owner has %q, want %s in %s", m, cell, text)
		}
	}
	want("<time")
	changeDatabase(t, dir, "UPDATE members SET added_at = 0") // as of a member from before the time was stored
	want("–")
	if text := string(a.Root.Get("/api/projects/" + a.Project + "/members").Want(200).Body); strings.Contains(text, "added_at") {
		t.Errorf("members %s, want none with added_at", text)
	}
}

// TestConsoleDeletionsThatEndMuch checks that the project of the embedded broker is not offered for
// deletion, that another one with connections needs the tick, and what the role of administrators is.
func TestConsoleDeletionsThatEndMuch(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)
	b.Lacks(b.Want(b.Get(b.Project("/delete")), 200, "holds the broker that runs in this service"), "class=\"danger\"")
	var p struct{ ID string }
	a.Root.Post("/api/projects", object{"name": "plant"}).Want(200).Decode(&p)
	b.Lacks(b.Want(b.Get("/p/"+p.ID+"/delete"), 200, "class=\"danger\"", `name="purge"`), "Required, as")
	a.Root.Post(a.At("/roles"), object{"rolename": "operator", "acls": []object{{"acltype": "publishClientSend", "topic": "$CONTROL/dynamic-security/v1", "priority": 0, "allow": true}}}).Want(204)
	a.Root.Post(a.At("/roles"), object{"rolename": "sensor"}).Want(204)
	const warning = "can no longer manage it"
	b.Want(b.Get(b.Broker("/roles/delete?rolename=operator")), 200, warning)
	b.Lacks(b.Want(b.Get(b.Broker("/roles/delete?rolename=sensor")), 200, "sensor"), warning)
}
