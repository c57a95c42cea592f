package console

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestStreamPages_load_what_they_show checks that a page about a stream calls no operation
// whose result it does not show.
func TestStreamPages_load_what_they_show(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]bool{`{"streamname":"1","persist":true}`: true, `{"streamname":"1"}`: false} {
		service := &calledService{responses: map[string]*Response{"getStream": success(record)}}
		c := newTestConsole(t, service.call)
		if w := c.open("stream"); w.Code != http.StatusOK || service.did("getStreamTimeline") != want {
			t.Errorf("the page about %s: status %d, loads what the stream stores: %t", record, w.Code, !want)
		}
		if w := c.open("stream-edit"); w.Code != http.StatusOK || !service.did("getStream") {
			t.Errorf("the editor of %s: status %d", record, w.Code)
		}
		w := c.post("stream-edit", url.Values{"do": {"edit"}, "step": {"preview"}, "sourcetopic": {"in/#"}, "active": {"true"}})
		if w.Code != http.StatusOK || service.did("getStream") || !strings.Contains(w.Body.String(), `value="in/#"`) {
			t.Errorf("the preview of %s: status %d", record, w.Code)
		}
	}
	missing := &calledService{responses: map[string]*Response{"getStream": refusal(http.StatusNotFound, "NOT_FOUND")}}
	if w := newTestConsole(t, missing.call).open("stream"); w.Code != http.StatusNotFound || missing.did("getStreamTimeline") {
		t.Errorf("a stream that does not exist: status %d", w.Code)
	}
}

// TestStreamPreview_of_another_version shows outcomes that this version of the console does not
// know, and hostile ones.
func TestStreamPreview_of_another_version(t *testing.T) {
	t.Parallel()
	service := &calledService{responses: map[string]*Response{"previewStream": success(`{"outcomes":[
		{"result":"dropped","cause":"moon phase\u202e","path":"[a\u202e]"},{"result":"dropped","cause":"conditionFalse"},
		{"result":"passed","payload":"x","encoding":"rot13\u202e","stored":true},{"result":"dropped"}]}`)}}
	messages := `[{"topic":"a","encoding":"base\u202e"},{"topic":"b"},{"topic":"c"},{"topic":"d"}]`
	w := newTestConsole(t, service.call).post("stream-new", url.Values{"do": {"edit"}, "step": {"preview"}, "messages": {messages}})
	page := html.UnescapeString(w.Body.String())
	for _, want := range []string{show("moon phase\u202e"), show("[a\u202e]"), "Dropped by the condition", show("rot13\u202e"), show("base\u202e")} {
		if !strings.Contains(page, want) {
			t.Errorf("status %d, the page lacks %s", w.Code, want)
		}
	}
	for _, unwanted := range []string{"\u202e", "preview.cause"} {
		if strings.Contains(page, unwanted) {
			t.Errorf("the page has %q", unwanted)
		}
	}
}

// TestTimelineAxes checks that the picture of what a stream stores has axes with whole numbers,
// the colour of a series, and a sentence about its highest bar.
func TestTimelineAxes(t *testing.T) {
	t.Parallel()
	for timeline, want := range map[string][]string{
		`{"count":1,"first":1769860800000,"last":1769860800000,"step":1,"counts":[1,0]}`: {`<li>0 messages</li><li>1 message</li><li>2 messages</li>`,
			`<rect class="bar" x="0" y="50" width="270" height="50">`, `<li><time datetime="2026-01-31T12:00:00Z">2026-01-31 12:00:00 UTC</time></li></ul>`, `12:00:00 UTC.</p>`},
		`{"count":8,"first":1769860800000,"last":1769860920000,"step":60001,"counts":[3,5]}`: {`<li>0 messages</li><li>3 messages</li><li>6 messages</li>`,
			`>2026-01-31 12:01:00 UTC</time></li><li><time datetime="2026-01-31T12:02:00Z">`, `The highest bar is 5 messages, from 2026-01-31 12:01:00 UTC.`, `M0 0H600M0 50H600M0 100H600`},
		`{"count":9000000,"first":1769860800000,"last":1769860920000}`: {`d="M0 100H600"`, `<rect class="bar" x="0" y="92" width="600" height="8">`, "Too many messages"},
	} {
		service := &calledService{responses: map[string]*Response{"getStream": success(`{"streamname":"1","persist":true}`), "getStreamTimeline": success(timeline)}}
		page := newTestConsole(t, service.call).open("stream").Body.String()
		for _, part := range want {
			if !strings.Contains(page, part) {
				t.Errorf("%s: the page lacks %s", timeline, part)
			}
		}
	}
}
