//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// readers is the number of concurrent readers.
const readers = 4

// pageSize is a usual page size.
const pageSize = 100

// measureGet compares reading one client with the limit.
func (b *bench) measureGet(ctx context.Context) error {
	p, l, err := b.readSubjects(ctx)
	if err != nil {
		return err
	}
	one := func(a *api, url string) call {
		return func(_, n int) error {
			name := clientName(n * 7919 % b.many)
			return a.call(ctx, http.MethodGet, url+"?username="+name, "", http.StatusOK, io.Discard)
		}
	}
	got, err := compare(b.rounds,
		subject{server: p.child, callers: readers, calls: b.reads, do: one(p.api, p.clients)},
		subject{server: l.child, callers: readers, calls: b.reads, do: one(l.api, l.url)})
	if err != nil {
		return err
	}
	what := fmt.Sprintf("GET clients?username= with a token, %d clients: CPU, product : limit", b.many)
	b.report.add(what, fmt.Sprintf("%s; limit %s", got[0], got[1]), got[0].cpu.over(got[1].cpu), "%.2f ×", atMost(2))
	return nil
}

// measurePage compares the last page with the first one.
func (b *bench) measurePage(ctx context.Context) error {
	p, l, err := b.readSubjects(ctx)
	if err != nil {
		return err
	}
	last := b.many - pageSize
	page := func(offset int) subject {
		url := fmt.Sprintf("%s?offset=%d&count=%d", p.clients, offset, pageSize)
		return subject{server: p.child, callers: readers, calls: b.pages, do: p.get(ctx, url)}
	}
	key := subject{server: l.child, callers: readers, calls: b.pages, do: l.get(ctx, l.url+"?after="+clientName(last-1))}
	got, err := compare(b.rounds, page(0), page(last), key)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("page of %d of %d clients: CPU, offset %d : offset 0", pageSize, b.many, last)
	b.report.add(what, fmt.Sprintf("%s; %s", got[1], got[0]), got[1].cpu.over(got[0].cpu), "%.2f ×", atMost(1.5))
	b.report.add("the same page: CPU, product : limit's page by key", fmt.Sprintf("%s; limit %s", got[1], got[2]),
		got[1].cpu.over(got[2].cpu), "%.2f ×", unbounded)
	return nil
}

func (b *bench) readSubjects(ctx context.Context) (*product, *plain, error) {
	p, err := b.largeProduct(ctx)
	if err != nil {
		return nil, nil, err
	}
	if b.plain == nil {
		b.plain, err = b.newPlain(ctx, b.many)
	}
	return p, b.plain, err
}

// measureStream reads all clients from a fresh process, and measures the memory that
// this takes.
func (b *bench) measureStream(ctx context.Context) error {
	p, err := b.largeProduct(ctx)
	if err != nil {
		return err
	}
	var extra, seconds samples
	var size int
	for range b.rounds {
		if _, err := p.restart(ctx); err != nil {
			return err
		}
		mib, took, bytes, err := b.streamOnce(ctx, p)
		if err != nil {
			return err
		}
		extra, seconds, size = append(extra, mib), append(seconds, took), bytes
	}
	what := fmt.Sprintf("count=-1 of %d clients: extra memory", b.many)
	b.report.add(what, fmt.Sprintf("%.1f MiB of JSON in %.2f s", float64(size)/(1<<20), seconds.median()), extra, "%.1f MiB", atMost(64))
	return nil
}

// streamOnce returns the peak of the resident memory above its level before, in MiB,
// the time in seconds and the length of the response.
func (b *bench) streamOnce(ctx context.Context, p *product) (extra, seconds float64, size int, err error) {
	before, err := p.settledMemory()
	if err != nil {
		return 0, 0, 0, err
	}
	if err := p.forgetPeak(); err != nil {
		return 0, 0, 0, err
	}
	var answer bytes.Buffer
	began := time.Now()
	err = p.call(ctx, http.MethodGet, p.clients+"?count=-1", "", http.StatusOK, &answer)
	took := time.Since(began)
	if err != nil {
		return 0, 0, 0, err
	}
	if n := bytes.Count(answer.Bytes(), []byte(`"username":`)); n < b.many {
		return 0, 0, 0, fmt.Errorf("got %d clients, want at least %d", n, b.many)
	}
	peak, err := p.memory("VmHWM")
	return peak - before, took.Seconds(), answer.Len(), err
}
