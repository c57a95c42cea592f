package apitest_test

import (
	"net/url"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// console is a browser on the pages of the embedded broker.
type console struct {
	*apitest.Browser
}

func openConsole(api *apitest.API, email, password string) *console {
	return &console{api.Browser(email, password)}
}

// at returns the path of a page of the embedded broker, with a query of pairs.
func (c *console) at(page string, pairs ...string) string {
	return c.Broker("/"+page) + "?" + formOf(pairs).Encode()
}

// page returns the text of a page, which must have the status 200.
func (c *console) page(path string) string { return c.Want(c.Get(path), 200).Text }

// has fails the test unless the page has all texts.
func (c *console) has(path string, texts ...string) { c.Want(c.Get(path), 200, texts...) }

// post returns the status and the text of the page to which a form leads.
func (c *console) post(path string, form url.Values) (status int, text string) {
	p := c.Post(path, form)
	return p.Status, p.Text
}

// do posts a form of pairs, which must succeed: the page that follows reports it.
func (c *console) do(path string, pairs ...string) {
	c.Want(c.Post(path, formOf(pairs)), 200, `class="message good"`)
}

func formOf(pairs []string) url.Values {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

// one returns the object of a list of the embedded broker with a name.
func one[T any](api *apitest.API, path, target, name string) (found T, ok bool) {
	var list []T
	q := url.Values{"filterTarget": {target}, "filterMode": {"equals"}, "filterValue": {name}}
	api.Root.Get(api.At(path + "?" + q.Encode())).Want(200).Decode(&list)
	if len(list) == 0 {
		return found, false
	}
	return list[0], true
}

// hidden returns the value of a hidden field of a page.
func hidden(t *testing.T, page, name string) string {
	t.Helper()
	_, after, ok := strings.Cut(page, `name="`+name+`" value="`)
	value, _, _ := strings.Cut(after, `"`)
	if !ok {
		t.Fatalf("the page has no field %s\n%s", name, page)
	}
	return value
}
