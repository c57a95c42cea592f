package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// faults collects what goes wrong in a tab, and counts its requests.
type faults struct {
	mu       sync.Mutex // guards the fields below
	found    []string
	expected []string
	requests map[network.RequestID]string // method and URL
	traffic  Traffic
}

// Traffic is what a page has caused.
type Traffic struct {
	Requests int
	Bytes    int // of the responses as transferred, with their headers
}

// observe is called with each event of the tab.
func (f *faults) observe(event any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeAssert {
			f.add("console.%s: %s", e.Type, values(e.Args))
		}
	case *runtime.EventExceptionThrown:
		f.add("exception: %s", exception(e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork { // those of the network are below
			f.add("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			f.add("Content-Security-Policy: %s: %s %s", d.ViolatedDirective, d.ContentSecurityPolicyViolationType, d.BlockedURL)
		}
	default:
		f.observeNetwork(event)
	}
}

func (f *faults) observeNetwork(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if f.requests == nil {
			f.requests = map[network.RequestID]string{}
		}
		f.requests[e.RequestID] = e.Request.Method + " " + e.Request.URL
		f.traffic.Requests++
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			f.add("%s: %d %s", f.requests[e.RequestID], e.Response.Status, e.Response.StatusText)
		}
	case *network.EventLoadingFinished:
		f.traffic.Bytes += int(e.EncodedDataLength)
		delete(f.requests, e.RequestID)
	case *network.EventLoadingFailed:
		if !e.Canceled {
			f.add("%s: %s %s", f.requests[e.RequestID], e.ErrorText, e.BlockedReason)
		}
		delete(f.requests, e.RequestID)
	}
}

// add records a fault. The caller holds mu.
func (f *faults) add(format string, values ...any) {
	f.found = append(f.found, strings.TrimSpace(fmt.Sprintf(format, values...)))
}

func (f *faults) expect(part string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected = append(f.expected, part)
}

// unexpected returns the faults that are not expected, and those that were and did not
// occur.
func (f *faults) unexpected() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	occurred := map[string]bool{}
	for _, fault := range f.found {
		matches := func(part string) bool { return strings.Contains(fault, part) }
		for _, part := range f.expected {
			occurred[part] = occurred[part] || matches(part)
		}
		if !slices.ContainsFunc(f.expected, matches) {
			all = append(all, fault)
		}
	}
	for _, part := range f.expected {
		if !occurred[part] {
			all = append(all, "expected, and did not occur: "+part)
		}
	}
	return all
}

// Traffic returns what the tab has caused since it was opened, or since the last call.
func (p *Page) Traffic() Traffic {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	last := p.faults.traffic
	p.faults.traffic = Traffic{}
	return last
}

// values returns the arguments of a call of the console.
func values(args []*runtime.RemoteObject) string {
	var all []string
	for _, a := range args {
		if a.Description != "" {
			all = append(all, a.Description)
			continue
		}
		all = append(all, string(a.Value))
	}
	return strings.Join(all, " ")
}

func exception(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return fmt.Sprintf("%s at %s:%d", d.Text, d.URL, d.LineNumber+1)
}
