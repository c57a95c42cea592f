package console

import (
	"bytes"
	"html"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestFailure checks what a failure shows: the fields instead of a reference to them,
// otherwise the sentence of the API, always with code and request, and all as text.
func TestFailure(t *testing.T) {
	t.Parallel()
	q := testRequest(t)
	set, err := parsePage("home", q.console.functions(q.lang, "."))
	if err != nil {
		t.Fatal(err)
	}
	fields := &apiError{Code: "INVALID_REQUEST", Message: "see info.errors", RequestID: "R1"}
	fields.Info.Errors = []fieldError{{"body.<b>", "must not be \u202e empty"}}
	other := &apiError{Code: "CONFLICT", Message: "<i>exists</i>"}
	for _, c := range []struct {
		err        *apiError
		want, lack []string
	}{
		{fields, []string{"These fields are not valid:", "<code>body.&lt;b&gt;</code> must not be ⟨U&#43;202E⟩ empty", "<code>R1</code>", `role="alert"`}, []string{"info.errors"}},
		{other, []string{"&lt;i&gt;exists&lt;/i&gt;", "<code>CONFLICT</code>"}, []string{"<ul>", "request"}},
	} {
		var out bytes.Buffer
		if err := set.ExecuteTemplate(&out, "failure", c.err); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in %s", want, out.String())
			}
		}
		for _, lack := range c.lack {
			if strings.Contains(out.String(), lack) {
				t.Errorf("%q in %s", lack, out.String())
			}
		}
	}
}

// TestNamed compares the links that are written without a template with those of one.
func TestNamed(t *testing.T) {
	t.Parallel()
	set := template.Must(template.New("").Funcs(template.FuncMap{"show": show}).Parse(`<a class="tag" href="{{.Link}}{{.Name}}">{{show .Name}}</a>`))
	texts := regexp.MustCompile(`(?s)^<a class="tag" href="([^"<>]*)">([^<>]*)</a>$`)
	for _, name := range []string{"pump-7", "", "a b+c", "plant/7", "?&#%=;", `"><script>alert(1)</script>`, "\u202e\x00\n", "ä€😀", "\xff"} {
		link := "../p/1/client?username="
		var want bytes.Buffer
		if err := set.Execute(&want, map[string]string{"Link": link, "Name": name}); err != nil {
			t.Fatal(err)
		}
		got := string(named(` class="tag"`, link, name))
		a, b := texts.FindStringSubmatch(got), texts.FindStringSubmatch(want.String())
		if a == nil || b == nil || html.UnescapeString(a[2]) != html.UnescapeString(b[2]) {
			t.Fatalf("got %s, want %s", got, want.String())
		}
		u, err := url.Parse(html.UnescapeString(a[1]))
		if err != nil || u.Path != "../p/1/client" || u.Fragment != "" || len(u.Query()) != 1 || u.Query().Get("username") != name {
			t.Errorf("the link for %q is %s: %v", name, a[1], err)
		}
	}
}
