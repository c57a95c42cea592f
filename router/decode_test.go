package router

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/handlers"
)

// sample is a request with every type of value.
type sample struct {
	Count  int    `query:"count" default:"-1" min:"-1"`
	Flag   bool   `query:"flag" default:"true"`
	Mode   string `query:"mode" default:"a" enum:"a|b"`
	Name   string `query:"name" required:"true" minlen:"2"`
	One    string `query:"one" alone:"true"`
	Narrow int8   `query:"narrow"`
	Body   sampleBody
}

type sampleBody struct {
	Text     string                     `json:"text" minlen:"2"`
	Kind     string                     `json:"kind" enum:"x|y"`
	Int      int                        `json:"int" min:"-5" max:"5"`
	Small    int8                       `json:"small"`
	Unsigned uint16                     `json:"unsigned"`
	Float    float64                    `json:"float" min:"0"`
	Bool     bool                       `json:"bool"`
	Must     string                     `json:"must" required:"true"`
	Pointer  *string                    `json:"pointer" minlen:"1"`
	Opt      handlers.Opt[string]       `json:"opt" nullable:"true" minlen:"1"`
	OptList  handlers.Opt[[]sampleItem] `json:"optlist" nullable:"true"`
	NoNull   handlers.Opt[string]       `json:"nonull"`
	List     []sampleItem               `json:"list" minlen:"1"`
	Strict   sampleStrict               `json:"strict"`
	Table    map[string]int             `json:"table"`
	Raw      json.RawMessage            `json:"raw" object:"true"`
	Any      any                        `json:"any"`
	When     time.Time                  `json:"when"`
	Email    string                     `json:"email" format:"email"`
	Unix     handlers.UnixSeconds       `json:"unix"`
	sampleInner
}

type sampleInner struct {
	Inner string `json:"inner"`
}

type sampleItem struct {
	Name string `json:"name" required:"true" minlen:"1"`
}

type sampleStrict struct {
	_ struct{} `strict:"true"`
	A int      `json:"a"`
}

func samplePlan(t testing.TB) *plan {
	t.Helper()
	p, err := shapes{}.planOf(reflect.TypeFor[sample]())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// decodeSample returns the body and its errors, as "field: message".
func decodeSample(t testing.TB, body string) (sampleBody, []string) {
	t.Helper()
	p := samplePlan(t)
	var req sample
	var bad problems
	p.bindBody(&bad, reflect.ValueOf(&req).Elem(), []byte(body))
	return req.Body, lines(bad.list)
}

func lines(list []handlers.FieldError) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Field+": "+e.Message)
	}
	return out
}

func TestBody_offences_are_named(t *testing.T) {
	t.Parallel()
	const m = `"must":"m"`
	for _, c := range []struct {
		body string
		want []string
	}{
		{`{"must":"m"}`, nil},
		{``, []string{"body: is required and must be one JSON value"}},
		{"  \n", []string{"body: is required and must be one JSON value"}},
		{`{"must":"m"} {}`, []string{"body: must be one JSON value"}},
		{`{"must":"m"`, []string{"body: must be one JSON value"}},
		{"{\"must\":\"\xff\"}", []string{"body: is not valid UTF-8"}},
		{`[]`, []string{"body: must be an object"}},
		{`null`, []string{"body: must not be null"}},
		{`7`, []string{"body: must be an object"}},
		{`{}`, []string{"body.must: is required"}},
		{`{"Must":"m"}`, []string{"body.must: is required"}},
		{`{"MUST":"m","must":"n"}`, nil},
		{`{"must":"m","must":"n"}`, []string{"body.must: is given more than once"}},
		{`{"m\u0075st":"m"}`, nil},
		{`{"unknown":1,"unknown":2,` + m + `}`, nil},
		{`{"must":null}`, []string{"body.must: must not be null"}},
		{`{"must":1}`, []string{"body.must: must be a string"}},
		{`{` + m + `,"text":"a"}`, []string{"body.text: must have at least 2 characters"}},
		{`{` + m + `,"text":"öü"}`, nil},
		{`{` + m + `,"kind":"z"}`, []string{"body.kind: must be one of x, y"}},
		{`{` + m + `,"int":"1"}`, []string{"body.int: must be an integer"}},
		{`{` + m + `,"int":1.5}`, []string{"body.int: must be an integer"}},
		{`{` + m + `,"int":1.0}`, nil},
		{`{` + m + `,"int":20e-1}`, nil},
		{`{` + m + `,"int":6}`, []string{"body.int: must be at most 5"}},
		{`{` + m + `,"int":-6}`, []string{"body.int: must be at least -5"}},
		{`{` + m + `,"int":1e400}`, []string{"body.int: is out of range"}},
		{`{` + m + `,"int":9223372036854775808}`, []string{"body.int: is out of range"}},
		{`{` + m + `,"small":128}`, []string{"body.small: is out of range"}},
		{`{` + m + `,"small":1e2}`, nil},
		{`{` + m + `,"unsigned":-1}`, []string{"body.unsigned: is out of range"}},
		{`{` + m + `,"unsigned":65535}`, nil},
		{`{` + m + `,"float":-0.5}`, []string{"body.float: must be at least 0"}},
		{`{` + m + `,"float":"1"}`, []string{"body.float: must be a number"}},
		{`{` + m + `,"bool":"true"}`, []string{"body.bool: must be true or false"}},
		{`{` + m + `,"bool":1}`, []string{"body.bool: must be true or false"}},
		{`{` + m + `,"pointer":null}`, []string{"body.pointer: must not be null"}},
		{`{` + m + `,"pointer":""}`, []string{"body.pointer: must have at least 1 character"}},
		{`{` + m + `,"opt":null}`, nil},
		{`{` + m + `,"opt":""}`, []string{"body.opt: must have at least 1 character"}},
		{`{` + m + `,"opt":[]}`, []string{"body.opt: must be a string"}},
		{`{` + m + `,"nonull":null}`, []string{"body.nonull: must not be null"}},
		{`{` + m + `,"list":[]}`, []string{"body.list: must have at least 1 entry"}},
		{`{` + m + `,"list":{}}`, []string{"body.list: must be an array"}},
		{`{` + m + `,"list":null}`, []string{"body.list: must not be null"}},
		{`{` + m + `,"list":[{"name":"a"},{"name":""},{},null,3]}`, []string{
			"body.list[1].name: must have at least 1 character", "body.list[2].name: is required",
			"body.list[3]: must not be null", "body.list[4]: must be an object"}},
		{`{` + m + `,"optlist":[{}]}`, []string{"body.optlist[0].name: is required"}},
		{`{` + m + `,"strict":{"a":1,"b":2}}`, []string{"body.strict.b: is not a member of this object"}},
		{`{` + m + `,"strict":{"A":1}}`, []string{"body.strict.A: is not a member of this object"}},
		{`{` + m + `,"table":{"x":"y"}}`, []string{"body.table.x: must be an integer"}},
		{`{` + m + `,"raw":[]}`, []string{"body.raw: must be an object"}},
		{`{` + m + `,"raw":null}`, []string{"body.raw: must not be null"}},
		{`{` + m + `,"any":null}`, nil},
		{`{` + m + `,"when":"yesterday"}`, []string{"body.when: must be a date and time as in 2026-01-31T12:00:00Z"}},
		{`{` + m + `,"email":"nobody"}`, []string{"body.email: must be an e-mail address"}},
		{`{` + m + `,"email":"A <a@b.c>"}`, []string{"body.email: must be an e-mail address"}},
		{`{` + m + `,"unix":"soon"}`, []string{"body.unix: must be Unix seconds, as a decimal string or a number"}},
		{`{` + m + `,"unix":"12.5"}`, nil},
		{`{"text":1,"int":"x","list":[{}]}`, []string{"body.text: must be a string", "body.int: must be an integer",
			"body.list[0].name: is required", "body.must: is required"}},
	} {
		if _, got := decodeSample(t, c.body); !cmp.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.body, got, c.want)
		}
	}
}

func TestBody_values_arrive(t *testing.T) {
	t.Parallel()
	got, bad := decodeSample(t, ` { "text" : "a\"\\\u00e4\ud83d\ude00}" , "int":-5,"small":-128,"unsigned":7,"float":1.5e1,
		"bool":true,"must":"{[,:","pointer":"p","opt":null,"optlist":[{"name":"n"}],"list":[ {"name":"a"} , {"name":"b]"} ],
		"strict":{},"table":{"a":1,"b":-2},"raw":{"x":[1, 2]},"any":[true],"when":"2026-01-02T03:04:05Z","email":"a@b.c","inner":"i"}`)
	if bad != nil {
		t.Fatal(bad)
	}
	p := "p"
	want := sampleBody{Text: "a\"\\ä😀}", Int: -5, Small: -128, Unsigned: 7, Float: 15, Bool: true, Must: "{[,:", Pointer: &p,
		Opt:     handlers.Opt[string]{Set: true, Null: true},
		OptList: handlers.Opt[[]sampleItem]{Set: true, Value: []sampleItem{{"n"}}},
		List:    []sampleItem{{"a"}, {"b]"}}, Table: map[string]int{"a": 1, "b": -2}, Raw: json.RawMessage(`{"x":[1, 2]}`),
		Any: []any{true}, When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Email: "a@b.c", sampleInner: sampleInner{"i"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(sampleBody{}, sampleStrict{}, handlers.UnixSeconds{})); d != "" {
		t.Error(d)
	}
}

func TestBody_offences_are_bounded(t *testing.T) {
	t.Parallel()
	_, bad := decodeSample(t, `{"must":"m","list":[`+strings.Repeat("1,", 5000)+`1]}`)
	if len(bad) != maxFieldErrors {
		t.Errorf("%d offences are listed, want %d", len(bad), maxFieldErrors)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	p := samplePlan(t)
	defaults := sample{Count: -1, Flag: true, Mode: "a", Name: "ab"}
	for _, c := range []struct {
		query string
		want  sample
		bad   []string
	}{
		{"name=ab", defaults, nil},
		{"name=ab&unknown=1&unknown=2", defaults, nil},
		{"name=ab&count=5&flag=false&mode=b&narrow=-128", sample{Count: 5, Mode: "b", Name: "ab", Narrow: -128}, nil},
		{"name=a%2Fb%20c%23%2B+d", sample{Count: -1, Flag: true, Mode: "a", Name: "a/b c#+ d"}, nil},
		{"", sample{}, []string{"query.name: is required"}},
		{"name=a", sample{}, []string{"query.name: must have at least 2 characters"}},
		{"name=ab&name=cd", sample{}, []string{"query.name: is given more than once"}},
		{"name=ab&count=1.0", sample{}, []string{"query.count: must be an integer"}},
		{"name=ab&count=", sample{}, []string{"query.count: must be an integer"}},
		{"name=ab&count=%2B1", sample{}, []string{"query.count: must be an integer"}},
		{"name=ab&count=-2", sample{}, []string{"query.count: must be at least -1"}},
		{"name=ab&count=99999999999999999999", sample{}, []string{"query.count: must be an integer"}},
		{"name=ab&narrow=128", sample{}, []string{"query.narrow: must be an integer"}},
		{"name=ab&flag=1&mode=A", sample{}, []string{"query.flag: must be true or false", "query.mode: must be one of a, b"}},
		{"name=ab;count=1", sample{}, []string{"query: is not a valid query string"}},
		{"name=%zz", sample{}, []string{"query: is not a valid query string"}},
		{"one=x&count=nonsense&name=ab", sample{}, []string{"query.name: is required"}},
	} {
		var req sample
		var bad problems
		p.bindQuery(&bad, reflect.ValueOf(&req).Elem(), c.query)
		if got := lines(bad.list); !cmp.Equal(got, c.bad) {
			t.Errorf("%q:\ngot  %q\nwant %q", c.query, got, c.bad)
		}
		if c.bad == nil && !reflect.DeepEqual(req, c.want) {
			t.Errorf("%q: got %+v, want %+v", c.query, req, c.want)
		}
	}
}

func TestPlan_refuses_types_that_cannot_be_bound(t *testing.T) {
	t.Parallel()
	type inner struct{ A string }
	for name, v := range map[string]any{
		"no tag": struct{ A string }{},
		"unknown meta": struct {
			A string `meta:"shoe size"`
		}{},
		"bad minlen": struct {
			A string `query:"a" minlen:"x"`
		}{},
		"bad min": struct {
			A int `query:"a" min:"x"`
		}{},
		"bad max": struct {
			A int `query:"a" max:"x"`
		}{},
		"bad format": struct {
			A string `query:"a" format:"x"`
		}{},
		"bad default": struct {
			A int `query:"a" default:"x"`
		}{},
		"default out of range": struct {
			A int `query:"a" default:"9" max:"3"`
		}{},
		"list in the query": struct {
			A []int `query:"a"`
		}{},
		"embedded pointer": struct{ Body struct{ *inner } }{},
		"channel":          struct{ Body struct{ C chan int } }{},
		"type in itself":   struct{ Body endless }{},
		"member twice": struct {
			Body struct {
				left
				right
			}
		}{},
		"no struct": 7,
	} {
		if _, err := (shapes{}).planOf(reflect.TypeOf(v)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

type (
	left  struct{ A int }
	right struct{ A int }
)

type endless struct{ Next *endless }

// FuzzBindBody checks that no body makes the binder panic, and that it decodes free
// values as encoding/json does.
func FuzzBindBody(f *testing.F) {
	for _, s := range []string{`{"must":"m"}`, `{"must":"m","list":[{"name":"a"}],"any":{"a":[1,{"b":"}"}]}}`, `{"any":"\"]"}`, "[]", "\xff", `{"int":1e3,"small":-0}`, `{"":{}}`, ` { "a" : [ ] } `} {
		f.Add([]byte(s))
	}
	p := samplePlan(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		var req sample
		var bad problems
		p.bindBody(&bad, reflect.ValueOf(&req).Elem(), body)
		if len(bad.list) > 0 || checkJSON(body) != "" {
			return
		}
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		for name, raw := range members(skipSpace(body)) {
			if _, ok := want[name]; !ok || !json.Valid(raw) {
				t.Fatalf("member %q of %q is %q", name, body, raw)
			}
			if name == "text" && fmt.Sprintf("%q", req.Body.Text) != fmt.Sprintf("%q", unquote(raw)) {
				t.Fatalf("text is %q, want %q", req.Body.Text, raw)
			}
		}
	})
}

// FuzzQuery checks that a query is either bound as net/url parses it, or refused.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"name=ab", "name=ab&count=5", "name=ab;", "%zz", "count=-1&count=2", "one=%00", "name=%ff%fe"} {
		f.Add(s)
	}
	p := samplePlan(f)
	f.Fuzz(func(t *testing.T, raw string) {
		var req sample
		var bad problems
		p.bindQuery(&bad, reflect.ValueOf(&req).Elem(), raw)
		if len(bad.list) > 0 {
			return
		}
		values, err := url.ParseQuery(raw)
		if err != nil || req.Count < -1 || len([]rune(req.Name)) < 2 || values.Get("one") == "" && values.Get("name") != req.Name {
			t.Fatalf("%q bound as %+v (%v)", raw, req, err)
		}
	})
}
