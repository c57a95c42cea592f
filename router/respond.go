package router

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"signalbox/broker"
	"signalbox/handlers"
)

// The forms of an operation's result other than a JSON value.
type (
	// streamed is a list that is written while it is read.
	streamed interface {
		TotalCount() int
		Each(yield func(any) error) error
	}
	// sessionCookie is a result that sets the console's cookie, or with an empty value
	// deletes it.
	sessionCookie interface {
		SessionCookie() (value string, expires time.Time)
	}
	// eventStream is a stream of events, which the response follows until it ends.
	eventStream interface {
		Ready() <-chan struct{}
		Take() []broker.Event
		Ended() <-chan struct{}
		Close()
	}
)

// cookieName is the cookie that carries a session for the console.
const cookieName = "signalbox_session"

// respond writes the response of a row.
func (rt *router) respond(w http.ResponseWriter, r *http.Request, row *route, answer any) error {
	if c, ok := answer.(sessionCookie); ok {
		rt.setCookie(w, r, c)
	}
	switch a := answer.(type) {
	case streamed:
		return rt.respondList(w, r, row, a)
	case handlers.File:
		return rt.respondFile(w, r, a)
	case handlers.Raw:
		writeBody(w, row.Status, a.ContentType, a.Body)
		return nil
	}
	if row.Status == http.StatusNoContent {
		w.WriteHeader(row.Status)
		return nil
	}
	var b bytes.Buffer
	if err := encode(&b, answer); err != nil {
		return err
	}
	writeBody(w, row.Status, "application/json", b.Bytes())
	return nil
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // a disconnected caller needs no response
}

// encode appends a value as JSON, without escaping of HTML.
func encode(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
	return nil
}

func (rt *router) setCookie(w http.ResponseWriter, r *http.Request, c sessionCookie) {
	value, expires := c.SessionCookie()
	cookie := &http.Cookie{
		Name: cookieName, Value: value, Path: "/", Expires: expires,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: rt.proxies.secure(r),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// listChunk is how much of a list is buffered before it is sent.
const listChunk = 32 << 10

// listWriter writes a list as a JSON array or as CSV. Nothing is sent before the first chunk is full,
// so that a list that fails early can still become an error response.
type listWriter struct {
	w       http.ResponseWriter
	timeout time.Duration // per chunk, not for the whole list
	status  int
	media   string
	buf     bytes.Buffer
	encoder *json.Encoder
	table   *csvTable // nil for JSON
	sent    bool
}

// respondList streams a list. After the first chunk a failure aborts the connection: a
// caller must not take a part for the whole.
func (rt *router) respondList(w http.ResponseWriter, r *http.Request, row *route, list streamed) error {
	l := &listWriter{w: w, timeout: rt.cfg.WriteTimeout, status: row.Status, media: "application/json"}
	if format := r.URL.Query().Get(formatParameter); format != "" && row.columns != nil {
		attach(w.Header(), row, format)
		if format == formatCSV {
			l.table, l.media = &csvTable{columns: row.columns, out: csv.NewWriter(&l.buf)}, csvMedia
		}
	}
	l.encoder = json.NewEncoder(&l.buf)
	l.encoder.SetEscapeHTML(false)
	w.Header().Set("X-Total-Count", strconv.Itoa(list.TotalCount()))
	if r.Method == http.MethodHead { // the response has no body
		l.sendHeader()
		return nil
	}
	err := l.begin()
	if err == nil {
		err = list.Each(l.add)
	}
	if err != nil {
		return l.fail(r, err, rt.log)
	}
	if l.table == nil {
		l.buf.WriteByte(']')
	}
	if !l.sent {
		writeBody(w, row.Status, l.media, l.buf.Bytes())
		return nil
	}
	if err := l.flush(); err != nil {
		return l.fail(r, err, rt.log)
	}
	return nil
}

// begin writes what is before the entries.
func (l *listWriter) begin() error {
	if l.table != nil {
		return l.table.head()
	}
	return l.buf.WriteByte('[')
}

func (l *listWriter) add(entry any) error {
	if err := l.write(entry); err != nil || l.buf.Len() < listChunk {
		return err
	}
	return l.flush()
}

// write appends an entry to the buffer.
func (l *listWriter) write(entry any) error {
	if l.table != nil {
		return l.table.add(entry)
	}
	if l.sent || l.buf.Len() > 1 {
		l.buf.WriteByte(',')
	}
	if err := l.encoder.Encode(entry); err != nil {
		return err
	}
	l.buf.Truncate(l.buf.Len() - 1) // the encoder's newline
	return nil
}

func (l *listWriter) flush() error {
	if !l.sent {
		l.sendHeader()
	}
	deadline := time.Now().Add(l.timeout)
	http.NewResponseController(l.w).SetWriteDeadline(deadline) //nolint:errcheck // a connection without deadlines needs none
	_, err := l.w.Write(l.buf.Bytes())
	l.buf.Reset()
	return err
}

func (l *listWriter) sendHeader() {
	l.sent = true
	l.w.Header().Set("Content-Type", l.media)
	l.w.WriteHeader(l.status)
}

// fail returns the failure if an error response is still possible.
func (l *listWriter) fail(r *http.Request, err error, log *slog.Logger) error {
	if !l.sent {
		l.w.Header().Del("X-Total-Count")
		l.w.Header().Del("Content-Disposition")
		return err
	}
	if r.Context().Err() == nil { // otherwise the caller disconnected, which is not a failure
		log.WarnContext(r.Context(), "list was aborted", "request_id", infoOf(r.Context()).id, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// refuse writes the error object and logs the cause of internal errors.
func (rt *router) refuse(w http.ResponseWriter, r *http.Request, row *route, err error) {
	x := infoOf(r.Context())
	e := *handlers.ErrorFor(err)
	e.Status = row.narrow(e.Status)
	if e.Code == handlers.CodeInternalError {
		e.Info = map[string]any{"requestId": x.id}
	}
	if e.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		rt.log.Log(r.Context(), failureLevel(e.Code), "operation failed",
			"op", row.ID, "request_id", x.id, "code", e.Code, "error", cause(&e))
	}
	writeError(w, &e)
}

// failureLevel keeps repeated requests to an unavailable broker from filling the log;
// the broker's record shows why it is unavailable.
func failureLevel(code string) slog.Level {
	if code == handlers.CodeBrokerUnavailable || code == handlers.CodeBrokerTimeout {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// cause returns the error to log.
func cause(e *handlers.Error) error {
	if inner := errors.Unwrap(e); inner != nil {
		return inner
	}
	return e
}

// writeError writes the error object.
func writeError(w http.ResponseWriter, e *handlers.Error) {
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="signalbox"`)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	var b bytes.Buffer
	if err := encode(&b, e.Object()); err != nil { // Info that cannot be encoded
		b.Reset()
		encode(&b, &handlers.ErrorObject{Message: e.Message, Code: e.Code, Status: e.Status}) //nolint:errcheck // strings and an int
	}
	writeBody(w, e.Status, "application/json", b.Bytes())
}
