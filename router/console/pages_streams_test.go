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
