package console

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	headPattern   = regexp.MustCompile(`<th scope="col"[^>]*>(?:<[^>]*>)*([^<]*)`)
	boxPattern    = regexp.MustCompile(`name="columns" value="(\d+)"( checked)?`)
	hiddenPattern = regexp.MustCompile(`<input type="hidden" name="([a-zA-Z]+)" value="([^"]*)">`)
)

// groupsOf returns the groups of all matches.
func groupsOf(p *regexp.Regexp, text string) (all []string) {
	for _, m := range p.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.TrimSpace(strings.Join(m[1:], " ")))
	}
	return all
}

// TestColumns chooses columns of lists. The choice is in the links to other pages of the list, and in
// the form of the filter; the form of the choice keeps the filter.
func TestColumns(t *testing.T) {
	t.Parallel()
	many := func(body string) *Response {
		r := success("[" + strings.Repeat(body+",", 25) + body + "]")
		r.Header.Set("X-Total-Count", "60")
		return r
	}
	service := &calledService{responses: map[string]*Response{"me": success(`{"root":true}`), "getBroker": success(`{"id":"1","embedded":true,"status":{"connected":true}}`),
		"listClients": many(`{"username":"pump","textname":"Pump"}`), "inspectClients": many(`{"clientid":"pump","numSubscriptions":1,"username":"pump"}`),
		"listSubscriptions": many(`{"topic":"a/b","clientid":"pump"}`), "listTokens": many(`{"id":"1","name":"t","role":"viewer"}`)}}
	c := newTestConsole(t, service.call)
	for page, heads := range map[string][]string{
		"clients":       {"Select:", "Username", "State", "Display name", "Bound to client id", "Groups", "Roles", "Connected from"},
		"sessions":      {"Select:", "Client id", "State", "Username", "Protocol", "Subscriptions", "Queue", "Dropped", "Actions"},
		"subscriptions": {"Topic filter", "Client id", "Username", "QoS", "Shared group", "Options", "Actions"},
		"tokens":        {"Name", "Role", "Brokers", "Created by", "Created", "Expires", "Last used", "Actions"},
	} {
		all := groupsOf(headPattern, c.open(page).Body.String())
		if !slices.Equal(all, heads) {
			t.Errorf("%s: got the columns %q, want %q", page, all, heads)
			continue
		}
		text := c.at(page, "&filterValue=pu&columns=3&columns=5&done=none").Body.String()
		first := max(0, slices.Index(heads, "Select:")+1)
		want := slices.Concat(heads[:first+1], []string{heads[first+2], heads[first+4]})
		if slices.Contains(heads, "Actions") {
			want = append(want, "Actions")
		}
		if got := groupsOf(headPattern, text); !slices.Equal(got, want) {
			t.Errorf("%s: got the columns %q, want %q", page, got, want)
		}
		if page != "tokens" { // which has no filter and no pages
			if links := groupsOf(regexp.MustCompile(`<a class="button" href="(\?[^"]*)" data-swap`), text); len(links) != 1 || !strings.Contains(links[0], "columns=3&amp;columns=5") {
				t.Errorf("%s: links to other pages: %q", page, links)
			}
			_, filter, _ := strings.Cut(text, `role="search" data-filter>`)
			filter, _, _ = strings.Cut(filter, "</form>")
			if got := groupsOf(hiddenPattern, filter); !slices.Equal(got, []string{"columns 3", "columns 5"}) {
				t.Errorf("%s: the filter keeps %q", page, got)
			}
		}
		form := text[strings.LastIndex(text, "<details>"):]
		var checked []string
		for _, box := range groupsOf(boxPattern, form) {
			if number, ok := strings.CutSuffix(box, "  checked"); ok {
				checked = append(checked, number)
			}
		}
		if !slices.Equal(checked, []string{"3", "5"}) {
			t.Errorf("%s: %q are checked in %s", page, checked, form)
		}
		if got := groupsOf(hiddenPattern, form); !slices.Contains(got, "filterValue pu") || slices.Contains(got, "done none") || slices.Contains(got, "columns 3") {
			t.Errorf("%s: the choice keeps %q", page, got)
		}
	}
	if w := c.at("clients", "&columns=x&columns=-1"); w.Code != http.StatusOK || len(groupsOf(headPattern, w.Body.String())) != 2 {
		t.Errorf("columns that do not exist: status %d", w.Code)
	}
}
