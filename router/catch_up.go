package router

import "net/http"

// staleHeader is a header of responses that may be older than what was acknowledged at other nodes.
const staleHeader = "Signalbox-Stale"

// catchUp has this node have everything that was acknowledged at any node of a cluster that shares the data,
// before a caller that presents a credential is authenticated: so one who turns to another node reads what
// it was answered before, and what was revoked is refused. While it cannot be found out whether the node has that, as without a
// majority, the response is marked. The requests of one page do it once.
func (rt *router) catchUp(w http.ResponseWriter, r *http.Request) {
	x := infoOf(r.Context())
	if page, ok := r.Context().Value(inProcessKey{}).(*requestInfo); ok {
		x = page
	}
	x.catchUp.Do(func() { x.stale = rt.api.DB.CatchUp(r.Context()) != nil })
	if x.stale {
		w.Header().Set(staleHeader, "true")
	}
}
