package systemtest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/scripts/suite"
)

// The variables with the size of the service, which is otherwise that of a large plant.
const (
	clientsVariable  = "SIGNALBOX_SIZE_CLIENTS"
	retainedVariable = "SIGNALBOX_SIZE_RETAINED"
)

// The bounds of a page, whatever the service holds.
const (
	maxElements = 1500
	maxBytes    = 60 << 10 // not compressed
	lastToFirst = 1.5      // processor time of the last page of a list to that of the first
)

// TestCampaignConsoleAtSize opens the pages of a service with 100,000 clients of access
// control and 1,000,000 retained messages: each is bounded, and the last page of a list
// takes the processor time of the first.
func TestCampaignConsoleAtSize(t *testing.T) {
	t.Parallel()
	clients, retained := suite.FromEnvironment(t, clientsVariable, 100_000), suite.FromEnvironment(t, retainedVariable, 1_000_000)
	dir := dataDir(t)
	wantImported(t, command(t, settings(nil).environ(dir), "import", "dynsec", writeManyClients(t, clients)), fmt.Sprintf("imported %d clients", clients))
	p := serve(t, dir, settings{"ADMIN_EMAIL": rootEmail, "ADMIN_PASSWORD": rootPassword, "LOG_LEVEL": "info"})
	s := &pagesAtSize{t: t, p: p, caller: root(t, p)}
	s.must(t, "PUT", s.at("/topictree/ttl"), object{"ttl_sec": 86400}, nil)
	s.must(t, "GET", s.at("/topictree?count=0"), nil, nil) // from now on every topic is tracked
	s.retain(t, p.MQTT, retained)

	const site = "site%2F000007"
	for _, page := range []string{"overview", "sessions", "sessions?filterValue=publisher", "subscriptions", "denials", "roles", "groups",
		"clients?filterValue=client-0", "clients?filterValue=no+such+client", "client?username=client-000007", "clients/new", "group?groupname=line-7",
		"retained?filter=" + site + "%2F%23", "retained?filter=site%2F%2B%2F7", "retained/message?topic=" + site + "%2F7", "retained/delete-matching",
		"topics", "topics?prefix=site%2F", "topics?prefix=" + site + "%2F", "topics?search=SITE", "topics?search=no+such+topic"} {
		s.open(s.page(page))
	}
	s.open("/ui/home")
	s.open("/ui/p/" + s.project + "/brokers")
	s.compare("clients?", clients)
	s.compare("clients?filterValue=client-0&filterTarget=username&filterMode=contains&", clients)
	s.compare("retained?", retained)
	s.compare("topics/all?", s.tracked())
	s.compare("topics?search=site&", s.tracked())
	for _, text := range []string{"client-000007", "site/000007", "no such name"} {
		s.search(text)
	}
}

// pagesAtSize opens the pages of a service, whose processor time it measures.
type pagesAtSize struct {
	*caller
	t *testing.T
	p *service
}

// page returns the path of a page of the embedded broker.
func (s *pagesAtSize) page(name string) string {
	return "/ui/p/" + s.project + "/b/" + s.embedded + "/" + name
}

// tracked returns the number of topics in the topic tree, which is bounded.
func (s *pagesAtSize) tracked() int {
	s.t.Helper()
	var level struct{ Topics int }
	s.must(s.t, "GET", s.at("/topictree/level?count=0"), nil, &level)
	if level.Topics == 0 {
		s.t.Error("no topic is tracked")
	}
	return level.Topics
}

var element = regexp.MustCompile(`<[a-zA-Z]`)

// open checks the bounds of a page.
func (s *pagesAtSize) open(path string) {
	s.t.Helper()
	status, text, err := s.do(s.t.Context(), http.MethodGet, path, nil)
	elements := len(element.FindAll(text, -1))
	if err != nil || status != http.StatusOK || elements > maxElements || len(text) > maxBytes || strings.Contains(string(text), "card-failure") {
		s.t.Errorf("%s: %d, %v, %d elements, %d bytes:\n%.2000s", path, status, err, elements, len(text), text)
	}
	s.t.Logf("%s: %d elements, %d bytes", path, elements, len(text))
}

// compare checks the first and the last page of a list, and compares what they cost.
func (s *pagesAtSize) compare(list string, total int) {
	s.t.Helper()
	const size, rounds, calls = 50, 7, 10
	first, last := s.page(list+"offset=0"), s.page(fmt.Sprint(list, "offset=", (total-1)/size*size))
	s.open(first)
	s.open(last)
	var costs [2][]time.Duration
	for range rounds {
		for i, path := range []string{first, last} {
			before := s.processorTime()
			for range calls {
				s.do(s.t.Context(), http.MethodGet, path, nil) //nolint:errcheck // it was checked
			}
			costs[i] = append(costs[i], (s.processorTime()-before)/calls)
		}
	}
	one, other := slices.Min(costs[0]), slices.Min(costs[1])
	s.t.Logf("%s: processor time of the first page %v, of the last %v: %.2f times", list, one, other, float64(other)/float64(one))
	if float64(other) > lastToFirst*float64(one) {
		s.t.Errorf("%s: the last page takes %v, the first %v", list, other, one)
	}
}

// search finds objects of all kinds.
func (s *pagesAtSize) search(text string) {
	s.t.Helper()
	before := s.processorTime()
	var found struct {
		Results []object
	}
	s.must(s.t, "GET", "/api/search?q="+strings.ReplaceAll(text, " ", "+"), nil, &found)
	s.t.Logf("search for %q: %d results, processor time %v", text, len(found.Results), s.processorTime()-before)
	if most := 80; len(found.Results) > most { // 8 of each kind
		s.t.Errorf("search for %q: %d results, at most %d are allowed", text, len(found.Results), most)
	}
}

// processorTime returns what the process has used.
func (s *pagesAtSize) processorTime() time.Duration {
	s.t.Helper()
	const schedulerClock = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^s.p.Pid()<<3|schedulerClock), &used); err != nil {
		s.t.Fatal(err)
	}
	return time.Duration(used.Nano())
}
