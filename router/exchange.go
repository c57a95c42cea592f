package router

import (
	"context"
	"crypto/rand"
	"net/http"

	"signalbox/handlers/auth"
)

// exchange is what becomes known about one request on its way: the access log
// and the metrics read it when the answer is out. It belongs to the goroutine
// of its request.
type exchange struct {
	id        string // X-Request-Id
	op        string // the row's id; "" where no row matched
	quiet     bool   // asked for all day by machines: logged for debugging only
	project   string
	broker    string
	principal *auth.Principal // nil for a stranger
}

type exchangeKey struct{}

// exchangeOf returns the exchange that the outermost handler put in.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// RequestID returns the id of the request that ctx belongs to, "" outside of one.
func RequestID(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.id
	}
	return ""
}

// maxRequestID is the length to which a caller's X-Request-Id is taken over.
const maxRequestID = 64

// requestID returns the caller's X-Request-Id where it is fit for a log, or makes
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
