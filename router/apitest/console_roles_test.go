package apitest_test

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
)

// roleForm is what the editor posts: rules as text.
func roleForm(step, lines string, more ...string) url.Values {
	form := formOf([]string{"do", "edit", "step", step, "mode", "lines", "lines", lines, "allowwildcardsubs", "true"})
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

func TestConsoleRoles(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	edit := c.at("roles/edit", "rolename", "sensor")
	base := hidden(t, c.page(edit), "base")
	const lines = "deny publishClientSend 5 plant/secret\nallow publishClientSend 0 plant/#\nallow publishClientReceive 1 in/%u\n"

	status, preview := c.post(edit, roleForm("preview", lines, "textname", "Sensors"))
	for _, want := range []string{"plant/secret", "added", "removed", "cmd/#", "pumps", "1 member"} {
		if status != 200 || !strings.Contains(preview, want) {
			t.Errorf("preview: %d, lacks %q\n%s", status, want, preview)
		}
	}
	if status, text := c.post(edit, roleForm("save", lines+"allow nothing\n", "base", base)); status != 400 || !strings.Contains(text, "Line 4") {
		t.Errorf("a line that is no rule: %d\n%s", status, text)
	}
	if status, text := c.post(edit, roleForm("save", lines+"allow publishClientSend 0 a/#/b\n", "base", base)); status != 400 || !strings.Contains(text, "topic filter") {
		t.Errorf("a topic that is none: %d\n%s", status, text)
	}
	if got, _ := one[broker.Role](api, "/roles", "rolename", "sensor"); len(got.ACLs) != 2 {
		t.Fatalf("what was not saved changed the role: %+v", got)
	}
	if status, text := c.post(edit, roleForm("save", lines, "base", base, "textname", "S")); status != 200 {
		t.Fatalf("save: %d\n%s", status, text)
	}
	got, _ := one[broker.Role](api, "/roles", "rolename", "sensor")
	want := []broker.ACL{{ACLType: "publishClientSend", Topic: "plant/secret", Priority: 5}, {ACLType: "publishClientSend", Topic: "plant/#", Allow: true},
		{ACLType: "publishClientReceive", Topic: "in/%u", Priority: 1, Allow: true}}
	if !slices.Equal(got.ACLs, want) || *got.TextName != "S" {
		t.Errorf("saved: %+v", got)
	}
	if status, text := c.post(edit, roleForm("save", "", "base", base)); status != 400 || !strings.Contains(text, "another person") {
		t.Errorf("save over the change of another: %d\n%s", status, text)
	}
	if status, text := c.post(c.at("roles/new"), roleForm("save", "allow subscribeLiteral #\n", "rolename", "new")); status != 200 {
		t.Fatalf("create: %d\n%s", status, text)
	}
	c.has(c.at("role", "rolename", "new"), "subscribeLiteral", "No client and no group has this role")
	c.has(c.at("roles/delete", "rolename", "sensor"), "pumps", "3 rules")
	c.do(c.at("roles/delete", "rolename", "sensor"), "do", "delete")
	if _, ok := one[broker.Role](api, "/roles", "rolename", "sensor"); ok {
		t.Error("the role was not deleted")
	}
}

// TestConsoleRoleTable uses the buttons of the editor's table without a script.
func TestConsoleRoleTable(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	row := func(form url.Values, prefix, topic, priority string) {
		form.Set(prefix+"/acltype", "publishClientSend")
		form.Set(prefix+"/topic", topic)
		form.Set(prefix+"/priority", priority)
		form.Set(prefix+"/allow", "true")
	}
	post := func(step string, rows ...string) string {
		form := formOf([]string{"do", "edit", "mode", "table", "step", step, "rolename", "r", "lines", "deny publishClientSend 1 pasted"})
		for i, topic := range rows {
			row(form, "acls/"+string(rune('0'+i)), topic, "0")
		}
		row(form, "new", "fresh", "9")
		status, text := c.post(c.at("roles/new"), form)
		if status != 200 {
			t.Fatalf("%s: %d\n%s", step, status, text)
		}
		return text
	}
	order := func(text string, topics ...string) {
		t.Helper()
		at := 0
		for _, topic := range topics {
			i := strings.Index(text[at:], `value="`+topic+`"`)
			if i < 0 {
				t.Fatalf("%q is not after what precedes it\n%s", topic, text)
			}
			at += i
		}
	}
	order(post("add", "a", "b"), "fresh", "pasted", "a", "b")
	order(post("down:0", "a", "b"), "fresh", "pasted", "b", "a")
	order(post("up:1", "a", "b"), "fresh", "pasted", "b", "a")
	if text := post("remove:0", "gone", "b"); strings.Contains(text, `value="gone"`) {
		t.Errorf("the rule was not removed\n%s", text)
	}
	if text := post("lines", "a"); !strings.Contains(text, "allow publishClientSend 0 a\n") {
		t.Errorf("as text:\n%s", text)
	}
}

// TestConsoleTriesAsTheBrokerDoes compares what the editor shows for a draft with the
// decisions of a broker that has it.
func TestConsoleTriesAsTheBrokerDoes(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, seed))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	topic := func(words ...string) string {
		levels := make([]string, 1+rng.IntN(2))
		for i := range levels {
			levels[i] = pick(words...)
		}
		return strings.Join(levels, "/")
	}
	types := []string{"publishClientSend", "publishClientReceive", "subscribeLiteral", "subscribePattern", "unsubscribeLiteral", "unsubscribePattern"}
	api.Root.Post(api.At("/clients"), object{"username": "u"}).Want(204)
	compared := 0
	for round := range 4 {
		lines, seen := "", map[string]bool{}
		for range 40 {
			kind, filter := pick(types...), topic("a", "b", "+", "%u", "%c", "$x")
			if rng.IntN(2) == 0 {
				filter += "/#"
			}
			if !seen[kind+filter] {
				seen[kind+filter] = true
				lines += pick("allow ", "deny ") + kind + " " + pick("0", "1", "2") + " " + filter + "\n"
			}
		}
		name := "r" + string(rune('0'+round))
		if status, text := c.post(c.at("roles/new"), roleForm("save", lines, "rolename", name)); status != 200 {
			t.Fatalf("%d\n%s", status, text)
		}
		api.Root.Put(api.At("/clients"), object{"username": "u", "roles": []object{{"rolename": name}}}).Want(204)
		for range 20 {
			action, tried := pick("publish", "receive", "subscribe", "unsubscribe"), topic("a", "b", "u", "id", "$x")
			if action == "subscribe" || action == "unsubscribe" {
				tried = topic("a", "b", "+", "u", "id", "$x")
			}
			v := ask(api, "u", "id", action, tried)
			_, text := c.post(c.at("roles/new"), roleForm("try", lines, "try/action", action, "try/topic", tried, "try/username", "u", "try/clientid", "id"))
			_, said, _ := strings.Cut(text, `<p role="status">`)
			said, _, _ = strings.Cut(said, "</p>")
			want := "No rule of this draft matches"
			if v.ACL != nil {
				want = "<code>" + string(v.ACL.ACLType) + "</code> <code>" + v.ACL.Topic + "</code>"
				compared++
			}
			if !strings.Contains(strings.ReplaceAll(said, "&#43;", "+"), want) || v.ACL != nil && strings.Contains(said, "good") != v.Allowed {
				t.Errorf("seed %d, %s %q: the editor shows %q, the broker %+v\n%s", seed, action, tried, said, v, lines)
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d decisions by rules", compared)
	}
}
