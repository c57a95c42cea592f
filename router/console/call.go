package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// apiError is an operation's error object.
type apiError struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Info    struct {
		RequestID string       `json:"requestId"`
		Errors    []fieldError `json:"errors"`
	} `json:"info"`
	RequestID string `json:"-"`

	Title    string `json:"-"` // what the code stands for, "" for an error of the console itself
	Original string `json:"-"` // the message as the API has it

	Untranslated map[string]bool `json:"-"` // its messages, and those of its fields, that are English whatever the language
}

// fieldError is the error of one field of a request, such as "body.acls[0].topic".
type fieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error returns the sentence for the caller.
func (e *apiError) Error() string { return e.Message }

// asAPIError returns err as an error object. Any other error is a fault of the program or
// of a broker's response: it is logged, and the caller gets the id of the request.
func (q *request) asAPIError(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	q.console.log.ErrorContext(q.http.Context(), "a page of the console failed", "page", q.page.name, "error", err)
	return &apiError{Status: http.StatusInternalServerError, Code: "INTERNAL_ERROR", Message: q.t("error.internal"), RequestID: q.w.Header().Get("X-Request-Id")}
}

// get calls an operation and decodes its result into out, nil to ignore it. The
// parameters of the operation's path are those of the page's.
func (q *request) get(operation string, query url.Values, out any) error {
	_, err := q.perform(operation, q.params, query, nil, out)
	return err
}

// list calls an operation that returns a list, and returns the number of all entries.
func (q *request) list(operation string, query url.Values, out any) (total int, err error) {
	header, err := q.perform(operation, q.params, query, nil, out)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(header.Get("X-Total-Count"))
}

// do calls an operation that changes something, with a body that is encoded as JSON, nil
// for none; bytes are sent as they are. Cookies that it sets are passed on to the browser.
func (q *request) do(operation string, query url.Values, body any) error {
	header, err := q.perform(operation, q.params, query, body, nil)
	for _, cookie := range header["Set-Cookie"] {
		q.w.Header().Add("Set-Cookie", cookie)
	}
	return err
}

// perform calls an operation with parameters of its own. It is safe for concurrent use.
func (q *request) perform(operation string, params map[string]string, query url.Values, body, out any) (http.Header, error) {
	encoded, isEncoded := body.([]byte)
	if body != nil && !isEncoded {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode the body of %s: %w", operation, err)
		}
	}
	res := q.console.call(q.http, operation, params, query.Encode(), encoded)
	if res.Stale {
		q.stale.Store(true)
	}
	if res.Status >= http.StatusBadRequest {
		return nil, q.localized(res.failure())
	}
	q.recordCall(operation, params, query)
	if out == nil {
		return res.Header, nil
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = res.Body
		return res.Header, nil
	}
	if err := json.Unmarshal(res.Body, out); err != nil {
		return nil, fmt.Errorf("decode the response of %s: %w", operation, err)
	}
	return res.Header, nil
}

// indented returns JSON with indentation, as it is if it is none.
func indented(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// failure returns the error object of the response.
func (res *Response) failure() *apiError {
	e := &apiError{}
	if json.Unmarshal(res.Body, e) != nil || e.Message == "" {
		e.Code, e.Message = "INTERNAL_ERROR", http.StatusText(res.Status)
	}
	e.Status, e.RequestID = res.Status, res.Header.Get("X-Request-Id")
	return e
}

// localized puts an error of the API into the language of the user: what its code stands for
// always, its sentences where they have a text.
func (q *request) localized(e *apiError) *apiError {
	e.Title, e.Original, e.Untranslated = q.known("error.code."+e.Code, ""), e.Message, map[string]bool{}
	for i := range e.Info.Errors {
		f := &e.Info.Errors[i]
		isWhole := e.Message == f.Field+": "+f.Message
		f.Message = e.translate(q.lang, f.Message)
		if isWhole { // as of the only field
			e.Message = f.Field + ": " + f.Message
			e.Untranslated[e.Message] = e.Untranslated[f.Message]
			return e
		}
	}
	e.Message = e.translate(q.lang, e.Message)
	return e
}

func (e *apiError) translate(l *locale, message string) string {
	text, ok := l.sentence(message)
	e.Untranslated[text] = !ok
	return text
}

// Field returns the error of a field, "" if it has none. name is that of the form: the
// path of the body's member with slashes, "acls/0/topic".
func (e *apiError) Field(name string) string {
	if e == nil {
		return ""
	}
	for _, f := range e.Info.Errors {
		if fieldName(f.Field) == name {
			return f.Message
		}
	}
	return ""
}

// fieldName returns the name in a form for a field of an error object:
// "acls/0/topic" for "body.acls[0].topic".
func fieldName(path string) string {
	_, name, _ := strings.Cut(path, ".")
	return strings.NewReplacer("[", "/", "]", "", ".", "/").Replace(name)
}

// part is what one card of a page shows: a value, or why there is none.
type part[T any] struct {
	Value T
	Total int // of a list, before paging
	Err   *apiError
}

// loadable is a part of any type. The functions that load parts are not generic: the program would
// have each of them once for every type.
type loadable interface {
	target() any // that the result is decoded into
	loaded(total int, failure *apiError)
}

func (p *part[T]) target() any                         { return &p.Value }
func (p *part[T]) loaded(total int, failure *apiError) { p.Total, p.Err = total, failure }

// parts loads the parts of a page at the same time.
type parts struct {
	running  sync.WaitGroup
	panicked atomic.Pointer[string] // what the first panic was about, with its stack
}

// run runs f beside the other parts. A panic waits for wait: on a goroutine of its own it
// would end the process.
func (g *parts) run(f func()) {
	g.running.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				text := fmt.Sprintf("%v\n%s", v, debug.Stack())
				g.panicked.CompareAndSwap(nil, &text)
			}
		}()
		f()
	})
}

// load calls an operation for a part of the page. An error stays in the part: the rest
// of the page is shown.
func load(g *parts, q *request, into loadable, operation string, query url.Values) {
	loadWith(g, q, into, operation, q.params, query)
}

// loadWith is load with parameters of the operation's path that differ from the page's.
func loadWith(g *parts, q *request, into loadable, operation string, params map[string]string, query url.Values) {
	g.run(func() { q.fetch(into, operation, params, query) })
}

// fetch is loadWith for what runs beside the other parts already.
func (q *request) fetch(into loadable, operation string, params map[string]string, query url.Values) {
	header, err := q.perform(operation, params, query, nil, into.target())
	if err != nil {
		into.loaded(0, q.asAPIError(err))
		return
	}
	total, _ := strconv.Atoi(header.Get("X-Total-Count"))
	into.loaded(total, nil)
}

// wait waits until all parts are loaded. It panics if one of them has.
func (g *parts) wait() {
	g.running.Wait()
	if text := g.panicked.Load(); text != nil {
		panic(*text)
	}
}

// forbidden returns the error of an action that the page does not offer to the caller.
func (q *request) forbidden() error {
	return &apiError{Status: http.StatusForbidden, Code: "FORBIDDEN", Message: q.t("access.forbidden")}
}

// invalid returns the error of a field that the page itself refuses.
func (q *request) invalid(name, message string) error {
	e := &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: message}
	e.Info.Errors = []fieldError{{Field: "body." + strings.ReplaceAll(name, "/", "."), Message: message}}
	return e
}

// notFound returns the error of an object that does not exist.
func (q *request) notFound(name string) error {
	return &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: q.t("access.not_found", show(name))}
}

// lineOf returns the line of a JSON document in which an error of decoding it lies,
// counted from 1.
func lineOf(document []byte, err error) int {
	end := len(document)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		end = min(int(syntax.Offset), end)
	}
	if e, ok := errors.AsType[*documentError](err); ok {
		end = int(e.offset)
	}
	return 1 + bytes.Count(document[:end], []byte{'\n'})
}
