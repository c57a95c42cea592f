package router

import (
	"cmp"
	"context"
	"net/http"
	"reflect"

	"github.com/julienschmidt/httprouter"

	"signalbox/handlers"
)

// endpoint is an operation in the one form that the router calls.
type endpoint struct {
	request reflect.Type
	answer  reflect.Type // nil where there is none
	call    func(ctx context.Context, request any) (any, error)
}

// query makes an endpoint of an operation that answers with a value.
func query[Q, A any](do func(context.Context, *Q) (A, error)) endpoint {
	return endpoint{
		request: reflect.TypeFor[Q](),
		answer:  reflect.TypeFor[A](),
		call:    func(ctx context.Context, r any) (any, error) { return do(ctx, r.(*Q)) },
	}
}

// command makes an endpoint of an operation whose answer has no body.
func command[Q any](do func(context.Context, *Q) error) endpoint {
	return endpoint{
		request: reflect.TypeFor[Q](),
		call:    func(ctx context.Context, r any) (any, error) { return nil, do(ctx, r.(*Q)) },
	}
}

// resolver is a request that finds what its path names, before its query and
// body are looked at: 404 comes before 400.
type resolver interface {
	Resolve(ctx context.Context, a *handlers.API) error
}

// locator is a request whose path names something that only its operation looks
// for. Locate is called where query or body are invalid; its error, a 404, then
// comes before theirs.
type locator interface {
	Locate(ctx context.Context, a *handlers.API) error
}

// validator is a request with rules that tags cannot state.
type validator interface{ Validate() []handlers.FieldError }

// call binds the request, calls the operation and returns its response.
func (rt *router) call(ctx context.Context, w http.ResponseWriter, r *http.Request, row *route, params httprouter.Params) (any, error) {
	v := reflect.New(row.plan.typ)
	row.plan.bindPath(v.Elem(), params, func() string { return rt.proxies.caller(r) })
	if q, ok := v.Interface().(resolver); ok {
		if err := q.Resolve(ctx, rt.api); err != nil {
			return nil, err
		}
	}
	if err := row.bindRest(w, r, v); err != nil {
		return nil, rt.located(ctx, v, err)
	}
	return row.Do.call(ctx, v.Interface())
}

// located returns the error of an invalid request, or that what its path names does
// not exist.
func (rt *router) located(ctx context.Context, v reflect.Value, invalid error) error {
	if q, ok := v.Interface().(locator); ok {
		return cmp.Or(q.Locate(ctx, rt.api), invalid)
	}
	return invalid
}

// bindRest binds and validates query and body; its error names every bad field.
func (row *route) bindRest(w http.ResponseWriter, r *http.Request, v reflect.Value) error {
	var bad problems
	row.plan.bindQuery(&bad, v.Elem(), r.URL.RawQuery)
	if row.plan.body != nil {
		body, err := readBody(w, r, row.maxBody())
		if err != nil {
			return err
		}
		row.plan.bindBody(&bad, v.Elem(), body)
	}
	if q, ok := v.Interface().(validator); ok {
		bad.addOwn(q.Validate())
	}
	if len(bad.list) > 0 {
		return handlers.Invalid(bad.list...)
	}
	return nil
}
