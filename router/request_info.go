package router

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"signalbox/handlers/auth"
)

// requestInfo collects properties of one request for the access log and the metrics, which
// read it after the response was sent. It belongs to the goroutine of its request.
type requestInfo struct {
	id        string // X-Request-Id
	op        string // the row's id; "" if no row matched
	quiet     bool   // requested frequently by machines: logged at level debug only
	project   string
	broker    string
	object    string          // the name of what the request is about, "" for none
	changes   bool            // it may change something
	principal *auth.Principal // nil if not authenticated
	streaming time.Time       // when a stream of events began; zero for another response

	catchUp sync.Once
	stale   bool // what is read may be older than what was acknowledged at other nodes
}

type requestInfoKey struct{}

// infoOf returns the value that the outermost handler created.
func infoOf(ctx context.Context) *requestInfo {
	x, _ := ctx.Value(requestInfoKey{}).(*requestInfo)
	return x
}

// RequestID returns the id of the request of ctx, "" outside of a request.
func RequestID(ctx context.Context) string {
	if x := infoOf(ctx); x != nil {
		return x.id
	}
	return ""
}

// maxRequestID bounds the length of a caller's X-Request-Id.
const maxRequestID = 64

// requestID returns the caller's X-Request-Id if it is fit for a log, otherwise a new
// one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); isRequestID(id) {
		return id
	}
	return rand.Text()
}

func isRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
