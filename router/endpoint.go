package router

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"

	"signalbox/handlers"
)

// endpoint is an operation in the uniform form that the router calls.
type endpoint struct {
	request reflect.Type
	result  reflect.Type // nil if there is none
	call    func(ctx context.Context, request any) (any, error)
}

// query returns an endpoint for an operation with a result.
func query[Q, A any](do func(context.Context, *Q) (A, error)) endpoint {
	return endpoint{
		request: reflect.TypeFor[Q](),
		result:  reflect.TypeFor[A](),
		call:    func(ctx context.Context, r any) (any, error) { return do(ctx, r.(*Q)) },
	}
}

// command returns an endpoint for an operation without a result.
func command[Q any](do func(context.Context, *Q) error) endpoint {
	return endpoint{
		request: reflect.TypeFor[Q](),
		call:    func(ctx context.Context, r any) (any, error) { return nil, do(ctx, r.(*Q)) },
	}
}

// resolver is a request that looks up what its path names before its query and body are
// checked: 404 comes before 400.
type resolver interface {
	Resolve(ctx context.Context, a *handlers.API) error
}

// locator is a request whose path names something that only its operation looks up.
// Locate is called if query or body are invalid; its error, a 404, then takes
// precedence.
type locator interface {
	Locate(ctx context.Context, a *handlers.API) error
}

// validator is a request with rules that tags cannot state.
type validator interface{ Validate() []handlers.FieldError }

// call binds the request, calls the operation and returns its response.
func (rt *router) call(ctx context.Context, w http.ResponseWriter, r *http.Request, row *route, a *auditedRequest) (any, error) {
	v := reflect.New(row.plan.typ)
	row.plan.bindPath(v.Elem(), a.params)
	row.plan.bindMeta(v.Elem(), rt.proxies, r)
	if q, ok := v.Interface().(resolver); ok {
		if err := q.Resolve(ctx, rt.api); err != nil {
			return nil, err
		}
	}
	body, err := row.bindRest(w, r, v)
	if err != nil {
		return nil, rt.located(ctx, v, err)
	}
	if ctx, err = a.begin(ctx, r, body); err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // it panics; the response is written elsewhere
			a.end(ctx, r, errPanic)
		}
	}()
	answer, err := row.Do.call(ctx, v.Interface())
	returned = true
	return answer, err
}

// errPanic is the outcome of an operation that panics, for the audit log.
var errPanic = errors.New("panic")

// located returns the 404 for what the path of an invalid request names, otherwise its
// own error.
func (rt *router) located(ctx context.Context, v reflect.Value, invalid error) error {
	if q, ok := v.Interface().(locator); ok {
		return cmp.Or(q.Locate(ctx, rt.api), invalid)
	}
	return invalid
}

// bindRest binds and validates query and body, which it returns; its error names every invalid
// field.
func (row *route) bindRest(w http.ResponseWriter, r *http.Request, v reflect.Value) (body []byte, err error) {
	var bad problems
	row.plan.bindQuery(&bad, v.Elem(), r.URL.RawQuery)
	row.bindFormat(&bad, r.URL.RawQuery)
	if row.plan.body != nil {
		if body, err = readBody(w, r, row.maxBody()); err != nil {
			return nil, err
		}
		row.plan.bindBody(&bad, v.Elem(), body)
	}
	if q, ok := v.Interface().(validator); ok {
		bad.addOwn(q.Validate())
	}
	if len(bad.list) > 0 {
		return nil, handlers.Invalid(bad.list...)
	}
	return body, nil
}
