package apitest

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// Browser is a browser without scripts in front of the web console: it keeps cookies,
// sends the headers of its own site and follows redirects.
type Browser struct {
	api    *API
	client *http.Client
}

// Page is a page of the console, or a part of one.
type Page struct {
	Status int
	Path   string // below /ui, with its query, after redirects
	Text   string
	Header http.Header
}

// Browser returns a browser in which a user has signed in.
func (a *API) Browser(email, password string) *Browser {
	a.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	b := &Browser{api: a, client: &http.Client{Jar: jar}}
	if p := b.Post("/login", url.Values{"email": {email}, "password": {password}}); p.Path != "/first-steps" {
		a.t.Fatalf("the log-in leads to %s (status %d)", p.Path, p.Status)
	}
	return b
}

// Member returns a browser in which a new user with a role in the project has signed in.
func (a *API) Member(role string) *Browser {
	a.t.Helper()
	var user struct{ ID string }
	email := role + "@example.com"
	a.Root.Post("/api/users", object{"email": email, "password": RootPassword, "firstname": role}).Want(200).Decode(&user)
	a.Root.Put("/api/projects/"+a.Project+"/members/"+user.ID, object{"role": role}).Want(204)
	return a.Browser(email, RootPassword)
}

// Broker returns the path of a page of the embedded broker, below /ui.
func (b *Browser) Broker(page string) string {
	return "/p/" + b.api.Project + "/b/" + b.api.Embedded + page
}

// Project returns the path of a page of the project, below /ui.
func (b *Browser) Project(page string) string { return "/p/" + b.api.Project + page }

// Get requests a page, by its path below /ui.
func (b *Browser) Get(path string) *Page {
	b.api.t.Helper()
	return b.do(http.MethodGet, path, "", nil)
}

// Fragment requests a part of a page, as its script does.
func (b *Browser) Fragment(path, name string) *Page {
	b.api.t.Helper()
	return b.do(http.MethodGet, path, "", nil, name)
}

// Post sends a form to a page.
func (b *Browser) Post(path string, form url.Values) *Page {
	b.api.t.Helper()
	return b.do(http.MethodPost, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}

// Upload sends a form with a file to a page.
func (b *Browser) Upload(path string, form url.Values, field, content string) *Page {
	b.api.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name := range form {
		w.WriteField(name, form.Get(name)) //nolint:errcheck // a bytes.Buffer takes everything
	}
	file, err := w.CreateFormFile(field, "file")
	if err != nil {
		b.api.t.Fatal(err)
	}
	io.WriteString(file, content) //nolint:errcheck // as above
	w.Close()                     //nolint:errcheck // as above
	return b.do(http.MethodPost, path, w.FormDataContentType(), &body)
}

func (b *Browser) do(method, path, contentType string, form io.Reader, fragment ...string) *Page {
	b.api.t.Helper()
	r, err := http.NewRequestWithContext(b.api.t.Context(), method, b.api.URL+"/ui"+path, form)
	if err != nil {
		b.api.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, name := range fragment {
		r.Header.Set("X-Fragment", name)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Origin", b.api.URL)
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.api.t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.api.t.Fatal(err)
	}
	return &Page{Status: res.StatusCode, Path: strings.TrimPrefix(res.Request.URL.RequestURI(), "/ui"), Text: string(text), Header: res.Header}
}

// Want fails the test unless the page has the status and all texts.
func (b *Browser) Want(p *Page, status int, texts ...string) *Page {
	b.api.t.Helper()
	if p.Status != status {
		b.api.t.Fatalf("%s: status %d, want %d\n%s", p.Path, p.Status, status, p.Text)
	}
	for _, text := range texts {
		if !strings.Contains(p.Text, text) {
			b.api.t.Errorf("%s lacks %q:\n%s", p.Path, text, p.main())
		}
	}
	return p
}

// Lacks fails the test if the page has one of the texts.
func (b *Browser) Lacks(p *Page, texts ...string) {
	b.api.t.Helper()
	for _, text := range texts {
		if strings.Contains(p.Text, text) {
			b.api.t.Errorf("%s has %q:\n%s", p.Path, text, p.main())
		}
	}
}

// main returns the content of the page without its frame.
func (p *Page) main() string {
	if _, after, ok := strings.Cut(p.Text, "<main"); ok {
		content, _, _ := strings.Cut(after, "</main>")
		return content
	}
	return p.Text
}
