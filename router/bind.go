package router

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/julienschmidt/httprouter"

	"signalbox/handlers"
)

// plan describes how a request is decoded into a Go value. It is computed when the
// router is built, so that serving only handles values.
type plan struct {
	typ   reflect.Type // of the request, a struct
	path  []parameter
	query []parameter
	meta  []parameter // properties of the request's connection
	body  *parameter  // nil if the operation has none
}

// parameter is a field of the request and the source of its value.
type parameter struct {
	name  string
	index []int
	shape *shape
	rules rules
}

// metaProperties are the properties of a request's connection that operations may ask for.
var metaProperties = map[string]func(proxies, *http.Request) string{
	"address":    func(ps proxies, r *http.Request) string { return ps.address(r).String() },
	"caller":     proxies.caller,
	"user_agent": func(_ proxies, r *http.Request) string { return r.UserAgent() },
}

// planOf computes the plan of a request type.
func (s shapes) planOf(t reflect.Type) (*plan, error) {
	p := &plan{typ: t}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("request %s is not a struct", t)
	}
	return p, s.collect(p, t, nil)
}

// collect adds the fields of a struct and of those embedded in it.
func (s shapes) collect(p *plan, t reflect.Type, prefix []int) error {
	for f := range t.Fields() {
		index := append(prefix[:len(prefix):len(prefix)], f.Index...)
		var err error
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			err = s.collect(p, f.Type, index)
		case f.IsExported():
			err = s.addParameter(p, f, index)
		}
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t.Name(), f.Name, err)
		}
	}
	return nil
}

func (s shapes) addParameter(p *plan, f reflect.StructField, index []int) error {
	r, err := parseRules(f.Tag)
	if err != nil {
		return err
	}
	sh, err := s.of(f.Type)
	if err != nil {
		return err
	}
	param := parameter{index: index, shape: sh, rules: r}
	switch {
	case param.tagged(f, "path"):
		p.path = append(p.path, param)
	case param.tagged(f, "query"):
		p.query = append(p.query, param)
		err = param.check()
	case param.tagged(f, "meta"):
		p.meta = append(p.meta, param)
		if metaProperties[param.name] == nil {
			err = fmt.Errorf("meta %q is not known", param.name)
		}
	case f.Name == "Body":
		param.name, p.body = "body", &param
		if sh.responseOnly {
			err = errors.New("holds an embedded pointer, which cannot be bound")
		}
	default:
		err = errors.New("has neither path, query nor meta tag")
	}
	return err
}

func (p *parameter) tagged(f reflect.StructField, tag string) bool {
	name, ok := f.Tag.Lookup(tag)
	p.name = name
	return ok
}

// check refuses a default that the parameter itself would refuse.
func (p *parameter) check() error {
	switch p.shape.kind {
	case text, boolean, integer:
	case list:
		if p.shape.typ != reflect.TypeFor[[]string]() || p.rules.fallback != "" {
			return errors.New("a query parameter that repeats must be a list of strings without a default")
		}
	default:
		return errors.New("a query parameter must be a string, a boolean, an integer or a list of strings")
	}
	if p.rules.fallback == "" {
		return nil
	}
	if bad := p.set(p.rules.fallback, reflect.New(p.shape.typ).Elem()); bad != "" {
		return fmt.Errorf("default %s", bad)
	}
	return nil
}

// bindPath sets the path parameters.
func (p *plan) bindPath(req reflect.Value, params httprouter.Params) {
	for i := range p.path {
		req.FieldByIndex(p.path[i].index).SetString(strings.ReplaceAll(params.ByName(p.path[i].name), innerSlash, "/"))
	}
}

// bindMeta sets the properties of the request's connection.
func (p *plan) bindMeta(req reflect.Value, ps proxies, r *http.Request) {
	for i := range p.meta {
		req.FieldByIndex(p.meta[i].index).SetString(metaProperties[p.meta[i].name](ps, r))
	}
}

// bindQuery sets the query parameters and records every invalid one. Parameters that
// the operation does not have are ignored.
func (p *plan) bindQuery(bad *problems, req reflect.Value, raw string) {
	if len(p.query) == 0 {
		return
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		bad.add(&place{name: "query"}, "is not a valid query string")
		return
	}
	root := &place{name: "query"}
	alone := p.alone(values)
	for i := range p.query {
		q := &p.query[i]
		given := values[q.name]
		if alone != nil && alone != q {
			given = nil
		}
		bad.add(&place{parent: root, name: q.name}, q.bind(given, req.FieldByIndex(q.index)))
	}
}

// alone returns the parameter that makes the others ignored, whatever their values; nil
// if the query has none.
func (p *plan) alone(values url.Values) *parameter {
	for i := range p.query {
		if q := &p.query[i]; q.rules.alone && values.Get(q.name) != "" {
			return q
		}
	}
	return nil
}

// bind sets v from the values of the parameter.
func (p *parameter) bind(given []string, v reflect.Value) string {
	switch {
	case p.shape.kind == list && len(given) > 0:
		v.Set(reflect.ValueOf(given))
		return ""
	case len(given) > 1:
		return "is given more than once"
	case len(given) == 1:
		return p.set(given[0], v)
	case p.rules.required:
		return "is required"
	case p.rules.fallback != "":
		return p.set(p.rules.fallback, v)
	}
	return ""
}

// set sets v from text and returns the error text, or "".
func (p *parameter) set(value string, v reflect.Value) string {
	if p.shape.opt {
		v.Field(1).SetBool(true)
		v = v.Field(0)
	}
	if p.shape.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch p.shape.kind {
	case boolean:
		v.SetBool(value == "true")
		if value != "true" && value != "false" {
			return "must be true or false"
		}
	case integer:
		n, err := strconv.ParseInt(value, 10, v.Type().Bits())
		if err != nil || value[0] == '+' {
			return "must be an integer"
		}
		v.SetInt(n)
		return p.rules.checkNumber(float64(n))
	default:
		v.SetString(value)
		return p.rules.checkText(value)
	}
	return ""
}

// readBody reads a request body of at most max bytes.
func readBody(w http.ResponseWriter, r *http.Request, max int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, max))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &handlers.Error{Status: http.StatusBadRequest, Code: handlers.CodePayloadTooLarge, Cause: err,
			Message: fmt.Sprintf("the body must not be larger than %d bytes", max)}
	}
	if err != nil {
		return nil, &handlers.Error{Status: http.StatusBadRequest, Code: handlers.CodeInvalidRequest, Cause: err,
			Message: "the body did not arrive whole"}
	}
	return body, nil
}

// bindBody sets the body and records all its errors.
func (p *plan) bindBody(bad *problems, req reflect.Value, body []byte) {
	root := &place{name: "body"}
	if p.body.rules.optional && len(skipSpace(body)) == 0 {
		return
	}
	if message := checkJSON(body); message != "" {
		bad.add(root, message)
		return
	}
	value := body[len(body)-len(skipSpace(body)):]
	value = value[:valueLen(value)]
	p.body.shape.decode(bad, root, value, &p.body.rules, req.FieldByIndex(p.body.index))
}

// addOwn adds the errors that the request itself reports, except for fields that have
// an error already: a value that cannot be decoded is not missing as well.
func (p *problems) addOwn(own []handlers.FieldError) {
	for _, f := range own {
		known := slices.ContainsFunc(p.list, func(e handlers.FieldError) bool { return e.Field == f.Field })
		if !known {
			p.list = append(p.list, f)
		}
	}
}
