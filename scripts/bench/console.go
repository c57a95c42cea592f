//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"signalbox/scripts/bench/load"
)

// rowsOfPage is the default number of rows on a page of the console.
const rowsOfPage = 50

// pageOf returns the address of a page of the console about the embedded broker.
func (p *product) pageOf(page string) string {
	path := strings.TrimPrefix(strings.TrimSuffix(p.clients, "clients"), p.url+"/api/projects/")
	return p.url + "/ui/p/" + strings.Replace(path, "/brokers/", "/b/", 1) + page
}

// asRoot returns the API with the session of the root administrator, which pages need.
func (p *product) asRoot() *api { return &api{token: p.root, http: p.http} }

// measurePages compares the first page of the clients with the last one, and with the call
// of the API that has the same rows.
func (b *bench) measurePages(ctx context.Context) error {
	p, err := b.largeProduct(ctx)
	if err != nil {
		return err
	}
	last := (b.many/rowsOfPage - 1) * rowsOfPage
	page := func(query string) subject {
		return subject{server: p.child, callers: 1, calls: b.pages, do: p.asRoot().get(ctx, p.pageOf("clients")+query)}
	}
	calls := fmt.Sprintf("%s?offset=%d&count=%d", p.clients, last, rowsOfPage)
	got, err := compare(b.rounds, page("?offset=0"), page(fmt.Sprintf("?offset=%d", last)),
		subject{server: p.child, callers: 1, calls: b.pages, do: p.get(ctx, calls)},
		page("?filterValue=client-0&filterTarget=username&filterMode=contains"))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("console: page of %d of %d clients: ", rowsOfPage, b.many)
	b.report.add(what+"CPU, last page : first page", fmt.Sprintf("%s; %s", got[1], got[0]), got[1].cpu.over(got[0].cpu), "%.2f ×", atMost(1.5))
	b.report.add(what+"CPU, page : call of the API", fmt.Sprintf("%s; %s", got[1], got[2]), got[1].cpu.over(got[2].cpu), "%.2f ×", atMost(10))
	b.report.add(what+"median latency", fmt.Sprint(got[1]), got[1].p50, "%.0f µs", atMost(10_000))
	b.report.add(what+"median latency with a filter that all match", fmt.Sprint(got[3]), got[3].p50, "%.0f µs", unbounded)
	return b.pageSizes(ctx, p)
}

// assetLinks are the files that a page loads.
var assetLinks = regexp.MustCompile(`(?:src|href)="([./]*static/[^"#]+)["#]`)

// pageSizes measures what a browser receives at its first visit, and of a later page.
func (b *bench) pageSizes(ctx context.Context, p *product) error {
	address := p.pageOf("clients")
	page, size, err := p.compressed(ctx, address)
	if err != nil {
		return err
	}
	b.report.add("console: that page, compressed", fmt.Sprintf("%d bytes plain", len(page)), samples{float64(size) / 1024}, "%.1f KiB", atMost(15))
	seen := map[string]bool{address: true}
	total := size
	waiting := [][]string{assetsOf(address, page)}
	for len(waiting) > 0 {
		for _, link := range waiting[0] {
			if seen[link] {
				continue
			}
			seen[link] = true
			text, size, err := p.compressed(ctx, link)
			if err != nil {
				return err
			}
			total += size
			waiting = append(waiting, assetsOf(link, text))
		}
		waiting = waiting[1:]
	}
	b.report.add("console: first visit, all files compressed", fmt.Sprintf("%d requests", len(seen)), samples{float64(total) / 1024}, "%.1f KiB", atMost(60))
	return nil
}

// imports are the modules that a module imports.
var imports = regexp.MustCompile(`from '(\./[a-z]+\.js)'|import '(\./[a-z]+\.js)'|import\('(\./[a-z]+\.js)'\)`)

// assetsOf returns the addresses of the files that a page or a module loads.
func assetsOf(address string, text []byte) (links []string) {
	base, err := http.NewRequest(http.MethodGet, address, http.NoBody) //nolint:noctx // only its address is used
	if err != nil {
		return nil
	}
	found := assetLinks.FindAllSubmatch(text, -1)
	if strings.HasSuffix(address, ".js") {
		found = imports.FindAllSubmatch(text, -1)
	}
	for _, match := range found {
		name := bytes.Join(match[1:], nil)
		if link, err := base.URL.Parse(string(name)); err == nil {
			links = append(links, link.String())
		}
	}
	return links
}

// compressed returns a file of the console, and its size as it is sent.
func (p *product) compressed(ctx context.Context, address string) (text []byte, size int, err error) {
	var plain, sent bytes.Buffer
	if err := p.asRoot().call(ctx, http.MethodGet, address, "", http.StatusOK, &plain); err != nil {
		return nil, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Authorization", "Bearer "+p.root)
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	_, err = io.Copy(&sent, resp.Body)
	return plain.Bytes(), sent.Len(), err
}

// The pages that are open at once, and how many of them a caller has.
const (
	openPages      = 200
	pagesOfOne     = 10
	watchedSeconds = 20
	eventsOfWarmUp = 3
)

// measureOpenPages measures what pages cost that follow the load of a broker: the memory and
// the processor time of each.
func (b *bench) measureOpenPages(ctx context.Context) error {
	p, err := b.smallProduct(ctx)
	if err != nil {
		return err
	}
	var memory, processor samples
	for range b.rounds {
		kib, share, err := b.openPages(ctx, p)
		if err != nil {
			return err
		}
		memory, processor = append(memory, kib), append(processor, share)
	}
	b.report.add(fmt.Sprintf("console: memory of each of %d pages that follow a broker", openPages), "", memory, "%.1f KiB", atMost(20))
	b.report.add("console: processor time of all of them", fmt.Sprintf("over %d s", watchedSeconds), processor, "%.2f %% of a core", unbounded)
	return nil
}

// measureBesidePages compares the latency of messages of a broker that many pages follow with
// that of one that none follows.
func (b *bench) measureBesidePages(ctx context.Context) error {
	e, err := load.Find("latency")
	if err != nil {
		return err
	}
	followed, p, err := b.newFollowed(ctx)
	if err != nil {
		return err
	}
	alone, err := b.newCompetitor(ctx)
	if err != nil {
		return err
	}
	tokens, err := p.tokens(ctx, openPages/pagesOfOne)
	if err != nil {
		return err
	}
	end, err := p.followAll(ctx, tokens)
	if err != nil {
		return err
	}
	defer end()
	got, err := b.compare(ctx, e, followed, alone)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("console: %s beside %d pages", e.Title, openPages)
	if b.failed(title, got[0]) || b.failed(title, got[1]) {
		return nil
	}
	b.report.add(title+": p99, with : without", got[0].String()+"; "+got[1].String(), got[0].p99.over(got[1].p99), "%.2f ×", atMost(1.1))
	return nil
}

// newFollowed starts a fresh product that pages will follow.
func (b *bench) newFollowed(ctx context.Context) (c competitor, p *product, err error) {
	a, err := writeLoadAccess(b.path("load.json"))
	if err != nil {
		return c, nil, err
	}
	if p, err = b.newLoaded(ctx, a); err != nil {
		return c, nil, err
	}
	return competitor{name: "product", server: p.child, target: a.target(p.mqtt)}, p, p.makeToken(ctx)
}

// followAll opens the streams of events of all pages, and returns when each has its first
// events. end closes them.
func (p *product) followAll(ctx context.Context, tokens []string) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	end = func() { cancel(); streams.Wait() }
	ready := make(chan error, openPages)
	for i := range openPages {
		streams.Go(func() { p.follow(ctx, tokens[i%len(tokens)], ready) })
	}
	for range openPages {
		select {
		case err = <-ready:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}

// openPages opens streams of events and closes them again.
func (b *bench) openPages(ctx context.Context, p *product) (kib, share float64, err error) {
	tokens, err := p.tokens(ctx, openPages/pagesOfOne)
	if err != nil {
		return 0, 0, err
	}
	before, err := p.settledMemory()
	if err != nil {
		return 0, 0, err
	}
	end, err := p.followAll(ctx, tokens)
	if err != nil {
		return 0, 0, err
	}
	defer end()
	began := time.Now()
	spent, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	select {
	case <-time.After(watchedSeconds * time.Second):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	after, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	share = 100 * (after - spent).Seconds() / time.Since(began).Seconds()
	used, err := p.settledMemory()
	return (used - before) * 1024 / openPages, share, err
}

// tokens creates tokens, each of which is a caller of its own.
func (p *product) tokens(ctx context.Context, n int) (list []string, err error) {
	for range n {
		var made struct{ Token string }
		if err := p.asRoot().decode(ctx, http.MethodPost, p.project+"/tokens", `{"name":"page","role":"viewer","type":"unrestricted"}`, &made); err != nil {
			return nil, err
		}
		list = append(list, made.Token)
	}
	return list, nil
}

// follow reads a stream of events until ctx ends. It reports when the first events have
// come, or why they cannot.
func (p *product) follow(ctx context.Context, token string, ready chan<- error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.clients, "clients")+"events", http.NoBody)
	if err != nil {
		ready <- err
		return
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := p.http.Do(r)
	if err != nil {
		ready <- err
		return
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		ready <- fmt.Errorf("GET %s: got %s", r.URL, resp.Status)
		return
	}
	seen := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "event:") {
			continue
		}
		if seen++; seen == eventsOfWarmUp {
			ready <- nil
		}
	}
	if seen < eventsOfWarmUp {
		ready <- fmt.Errorf("GET %s: the stream ended after %d events", r.URL, seen)
	}
}
