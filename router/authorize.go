package router

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/julienschmidt/httprouter"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// admit decides whether the caller may use the row: first it authenticates the caller
// (401), then it checks the role (403); a project that does not exist is 404. The
// returned context carries the principal.
func (rt *router) admit(w http.ResponseWriter, r *http.Request, row *route, params httprouter.Params) (context.Context, error) {
	ctx := r.Context()
	if row.Role == auth.Public {
		return ctx, refuseCrossSite(r)
	}
	if row.Scrape && rt.isScraper(r) {
		return ctx, nil
	}
	p, err := rt.identify(w, r)
	if err != nil {
		return nil, err
	}
	infoOf(ctx).principal = p
	if p.ViaCookie && row.writes() && !sameOrigin(r) {
		return nil, handlers.Forbidden("a change with the session cookie must come from the console's own origin")
	}
	if err := rt.authorize(ctx, p, row, params); err != nil {
		return nil, err
	}
	return auth.WithPrincipal(ctx, p), nil
}

// identify authenticates the caller. The header takes precedence over the cookie.
func (rt *router) identify(w http.ResponseWriter, r *http.Request) (*auth.Principal, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		token, ok := bearer(header)
		if !ok {
			return nil, auth.ErrUnauthenticated
		}
		rt.catchUp(w, r)
		return rt.auth.Authenticate(r.Context(), token)
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil, auth.ErrUnauthenticated
	}
	rt.catchUp(w, r)
	p, err := rt.auth.Authenticate(r.Context(), cookie.Value)
	if err != nil {
		return nil, err
	}
	p.ViaCookie = true
	return p, nil
}

// bearer returns the token of an Authorization header [RFC 6750, 2.1].
func bearer(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// authorize compares the caller's role with the row's.
func (rt *router) authorize(ctx context.Context, p *auth.Principal, row *route, params httprouter.Params) error {
	switch {
	case row.UsersOnly && p.Kind != auth.KindUser:
		return handlers.Forbidden("only a user may do this, not a project token")
	case row.Creators && !rt.auth.MayCreateProjects(p):
		return handlers.Forbidden("you may not create projects here; ask a platform administrator (auth.project_creators)")
	case row.Role == auth.Root:
		return allow(p.Root, "only a platform administrator may do this")
	case !row.inProject():
		return allow(row.Role.Allows(auth.SignedIn) && !row.needsProject(), "no caller may do this")
	}
	role, err := rt.auth.RoleIn(ctx, p, params.ByName("projectId"))
	if err != nil {
		return noProject(err)
	}
	if err := allow(role.Allows(rt.auth.Required(row.Role, row.writes())), "your role in the project does not allow this"); err != nil {
		return err
	}
	return restrict(p, row, params)
}

// noProject is the error for a project that does not exist.
func noProject(err error) error {
	e := *handlers.ErrorFor(err)
	if e.Code == handlers.CodeNotFound {
		e.Message = "there is no project with this id"
	}
	return &e
}

// restrict limits a restricted token to its brokers.
func restrict(p *auth.Principal, row *route, params httprouter.Params) error {
	switch {
	case !p.Restricted():
		return nil
	case row.inBroker():
		return allow(p.BrokerAllowed(params.ByName("brokerId")), "this token does not reach this broker")
	}
	return allow(row.Restricted, "a restricted token may only work on its brokers")
}

func allow(ok bool, message string) error {
	if ok {
		return nil
	}
	return handlers.Forbidden(message)
}

// sameOrigin reports whether the request comes from a page of this service, by the
// headers that scripts cannot set: at least one of them must confirm it, and none may
// contradict it.
func sameOrigin(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case site == "" && origin == "":
		return false
	case site != "" && site != "same-origin":
		return false
	}
	return origin == "" || isOwnOrigin(r, origin)
}

// isOwnOrigin compares host and port. The scheme is compared only under our own TLS: a
// proxy in front may terminate TLS.
func isOwnOrigin(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil
}

// refuseCrossSite prevents other sites from logging a browser in as another user. A
// caller that is not a browser sends none of the headers.
func refuseCrossSite(r *http.Request) error {
	browser := r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
	return allow(!changesState(r.Method) || !browser || sameOrigin(r), "this must come from the console's own origin")
}

// isScraper reports whether the request carries the configured scrape token.
func (rt *router) isScraper(r *http.Request) bool {
	token, ok := bearer(r.Header.Get("Authorization"))
	want := string(rt.cfg.MetricsToken)
	return ok && want != "" && equal(token, want)
}

// equal compares in a time that does not depend on where they differ, nor on their
// lengths.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
