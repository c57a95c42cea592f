package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// calledService is the empty service, but for the operations that have a response of their
// own, and the operations that were called, with their bodies.
type calledService struct {
	responses map[string]*Response
	mu        sync.Mutex // guards called
	called    map[string]string
}

func (s *calledService) call(r *http.Request, operation string, params map[string]string, query string, body []byte) *Response {
	s.mu.Lock()
	if s.called == nil {
		s.called = map[string]string{}
	}
	s.called[operation] = string(body)
	s.mu.Unlock()
	if res := s.responses[operation]; res != nil {
		return res
	}
	return emptyService(r, operation, params, query, body)
}

// did reports whether the operation was called since the last time.
func (s *calledService) did(operation string) bool {
	_, did := s.sent(operation)
	return did
}

// sent returns the body with which an operation was called since the last time, and whether
// it was called at all.
func (s *calledService) sent(operation string) (body string, did bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, did = s.called[operation]
	s.called = nil
	return body, did
}

// refusal returns the response of an operation that fails.
func refusal(status int, code string) *Response {
	return &Response{Status: status, Header: http.Header{}, Body: []byte(`{"code":"` + code + `","message":"refused"}`)}
}

// success returns the response of an operation with a body.
func success(body string) *Response {
	return &Response{Status: http.StatusOK, Header: http.Header{}, Body: []byte(body)}
}

// open loads the page with a name.
func (c *Console) open(name string) *httptest.ResponseRecorder { return c.at(name, "") }

// at opens the page with a name and more in its query.
func (c *Console) at(name, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.pageNamed(name).testPath()+query, nil))
	return w
}

// post sends a form to the page with a name.
func (c *Console) post(name string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, c.pageNamed(name).testPath(), strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// TestDeadLetters_are_selected_first posts the form of dead letters with none selected,
// which must not become an operation on all of them. The deletion of selected ones is asked for.
func TestDeadLetters_are_selected_first(t *testing.T) {
	t.Parallel()
	service := &calledService{}
	c := newTestConsole(t, service.call)
	for do, operation := range map[string]string{"delete": "deleteDeadLetters", "retry": "retryDeadLetters"} {
		if w := c.post("dead-letters", url.Values{"do": {do}}); w.Code != http.StatusBadRequest || service.did(operation) {
			t.Errorf("%s with nothing selected: %d", do, w.Code)
		}
		if w := c.post("dead-letters", url.Values{"do": {do}, "id": {"1", "2"}}); w.Code != http.StatusSeeOther || !service.did(operation) {
			t.Errorf("%s of two: %d", do, w.Code)
		}
	}
	asked := c.post("dead-letters", url.Values{"do": {"ask-delete"}, "id": {"1", "2"}})
	if service.did("deleteDeadLetters") || asked.Code != http.StatusOK {
		t.Errorf("deleted before the answer, with the status %d", asked.Code)
	}
	for _, text := range []string{"2 dead letters of ", "cannot be delivered any more", `name="id" value="1"`, `name="id" value="2"`, `name="do" value="delete"`, "Delete 2 dead letters"} {
		if !strings.Contains(asked.Body.String(), text) {
			t.Errorf("the question lacks %q:\n%s", text, asked.Body)
		}
	}
	if w := c.post("dead-letters", url.Values{"do": {"ask-delete"}}); w.Code != http.StatusBadRequest {
		t.Errorf("deletion of none is asked for: %d", w.Code)
	}
	service.responses = map[string]*Response{"listDeadLetters": {Status: http.StatusOK, Header: http.Header{"X-Total-Count": {"7"}}, Body: []byte(`[{"id":"1","topic":"in/x"}]`)}}
	if page := c.open("dead-letters").Body.String(); strings.Contains(page, `value="delete"`) || !strings.Contains(page, `value="ask-delete"`) || !strings.Contains(page, "Delete all 7") {
		t.Errorf("the list deletes at once, or does not name the number:\n%s", page)
	}
	if page := c.post("dead-letters", url.Values{"do": {"ask-delete"}, "id": {"1"}}).Body.String(); strings.Contains(page, `value="ask-delete"`) || !strings.Contains(page, `value="1" checked`) {
		t.Errorf("other buttons are beside the question, or what is selected is not shown:\n%s", page)
	}
	if page := c.open("dead-letters").Body.String(); strings.Contains(page, " checked") || !strings.Contains(page, `#letters"><span class="hidden-text">Select: </span>All</a>`) {
		t.Errorf("the list has a selection, or no link to one:\n%s", page)
	}
	if page := c.at("dead-letters", "&select=all").Body.String(); !strings.Contains(page, `name="id" value="1" checked`) || !strings.Contains(page, `#letters"><span class="hidden-text">Select: </span>None</a>`) {
		t.Errorf("not everything is selected:\n%s", page)
	}
	if w := c.post("dead-letters-delete", url.Values{}); w.Code != http.StatusSeeOther || !service.did("deleteDeadLetters") {
		t.Errorf("deletion of all: %d", w.Code)
	}
}

// TestSecrets_are_not_shown_again posts forms with secrets that the API refuses: the form
// is shown again with its other values.
func TestSecrets_are_not_shown_again(t *testing.T) {
	t.Parallel()
	refused := refusal(http.StatusBadRequest, "INVALID_REQUEST")
	service := &calledService{responses: map[string]*Response{"createBroker": refused, "updateBroker": refused, "createClient": refused, "setClientPassword": refused, "createUser": refused, "login": refused}}
	c := newTestConsole(t, service.call)
	for _, name := range []string{"broker-new", "connection-edit", "client-new", "client-password", "user-new", "login"} {
		w := c.post(name, url.Values{"name": {"pump"}, "username": {"pump"}, "email": {"pump"}, "host": {"pump"}, "hostname": {"pump"}, "title": {"pump"},
			"password": {"s3cret-1"}, "client_key": {"s3cret-2"}, "newPassword": {"s3cret-3"}, "repeat": {"s3cret-1"}})
		text := w.Body.String()
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, w.Code)
		}
		if strings.Contains(text, "s3cret-") {
			t.Errorf("%s shows a secret again", name)
		}
	}
}
