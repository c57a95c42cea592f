package query_test

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/streams/query"
)

// testQuery is a query in the form that the oracle reads. Right is a
// json.Number, a string or a bool.
type testQuery struct {
	selects  []selection
	size     int64 // of the buckets in milliseconds, 0 without buckets
	operator string
	left     string // a path or an alias, empty without a condition
	right    any
}

type selection struct{ source, target, alias, function string }

// oracle is the simplest implementation of a query: it decodes documents, keeps
// all of a bucket, and computes every result from them.
type oracle struct {
	testQuery
	bucket int64
	kept   []any // the documents of the bucket; without aggregates the last one
}

// run returns the verdict, and the decoded output.
func (o *oracle) run(payload string, at int64) (output any, verdict query.Verdict) {
	document, ok := decode(payload)
	if !ok {
		return nil, query.Invalid
	}
	late := slices.ContainsFunc(o.selects, func(s selection) bool { return s.alias == o.left && s.function != "" })
	if o.left != "" && !late && !o.holds(document) {
		return nil, query.Filtered
	}
	if !o.complete(document) {
		return nil, query.Invalid
	}
	o.add(document, at)
	if o.left != "" && late && !o.holds(document) {
		return nil, query.Filtered
	}
	return o.output(document), query.Match
}

func decode(payload string) (document any, ok bool) {
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	return document, json.Valid([]byte(payload)) && d.Decode(&document) == nil
}

// add appends a document.
func (o *oracle) add(document any, at int64) {
	bucket := int64(0)
	if o.size > 0 {
		bucket = at - ((at%o.size)+o.size)%o.size
	}
	aggregates := slices.ContainsFunc(o.selects, func(s selection) bool { return s.function != "" && s.function != "time_bucket" })
	if !aggregates || len(o.kept) == 0 || bucket > o.bucket {
		o.bucket, o.kept = bucket, nil
	}
	o.kept = append(o.kept, document)
}

// complete reports whether the document has every selected member, and a number
// for every aggregate.
func (o *oracle) complete(document any) bool {
	for _, s := range o.selects {
		if s.function == "count" || s.function == "time_bucket" {
			continue
		}
		v, ok := find(document, s.source)
		_, isNumber := v.(json.Number)
		if !ok || s.function != "" && !isNumber {
			return false
		}
	}
	return true
}

// value returns the value of a select: a value of the document, or a computed
// *big.Rat.
func (o *oracle) value(s selection, document any) (v any, ok bool) {
	switch s.function {
	case "":
		return find(document, s.source)
	case "count":
		return big.NewRat(int64(len(o.kept)), 1), true
	case "time_bucket":
		return big.NewRat(o.bucket, 1000), true
	case "sum":
		return total(o.numbers(s.source)), true
	}
	all := o.numbers(s.source)
	if s.function == "min" {
		return slices.MinFunc(all, func(a, b json.Number) int { return rat(a).Cmp(rat(b)) }), true
	}
	return slices.MaxFunc(all, func(a, b json.Number) int { return rat(a).Cmp(rat(b)) }), true
}

// numbers returns a member of all documents of the bucket.
func (o *oracle) numbers(source string) (all []json.Number) {
	for _, d := range o.kept {
		v, _ := find(d, source)
		all = append(all, v.(json.Number))
	}
	return all
}

// total returns the sum. It is exact while it fits an int64; otherwise summands
// that are not an int64 count as float64, and so does the result.
func total(all []json.Number) *big.Rat {
	sum, float := new(big.Rat), false
	for _, n := range all {
		v := rat(n)
		if !fits(v) {
			float = true
			f, _ := v.Float64()
			v.SetFloat64(f)
		}
		sum.Add(sum, v)
		float = float || !fits(sum)
	}
	if float {
		f, _ := sum.Float64()
		return rat(json.Number(strconv.FormatFloat(f, 'e', -1, 64)))
	}
	return sum
}

func fits(v *big.Rat) bool { return v.IsInt() && v.Num().IsInt64() }

// find follows a path in the syntax of queries; the names do not contain
// brackets.
func find(document any, path string) (v any, ok bool) {
	v = document
	for rest := path; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest[1:], "]") // an alias finds nothing
		switch t := v.(type) {
		case map[string]any:
			if v, ok = t[name]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(t) {
				return nil, false
			}
			v = t[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// rat returns the exact value of a number.
func rat(n json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

// holds reports whether the left side has a value and the comparison is true.
func (o *oracle) holds(document any) bool {
	left, ok := find(document, o.left)
	if i := slices.IndexFunc(o.selects, func(s selection) bool { return s.alias == o.left }); i >= 0 {
		left, ok = o.value(o.selects[i], document)
	}
	return ok && allowed(left, o.operator, o.right)
}

func allowed(left any, operator string, right any) bool {
	var order int
	switch r := right.(type) {
	case json.Number:
		n, ok := left.(*big.Rat)
		if l, isNumber := left.(json.Number); isNumber {
			n, ok = rat(l), true
		}
		if !ok {
			return operator == "!="
		}
		order = n.Cmp(rat(r))
	case string:
		l, ok := left.(string)
		if !ok {
			return operator == "!="
		}
		order = strings.Compare(l, r)
	default:
		if left != right {
			return operator == "!="
		}
	}
	return map[string]bool{"==": order == 0, "!=": order != 0, "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}[operator]
}

// output returns the tree of the targets, or the document if there are none.
func (o *oracle) output(document any) any {
	root := map[string]any{}
	for _, s := range o.selects {
		if s.target == "" {
			continue
		}
		outer, name, _ := strings.Cut(strings.Trim(s.target, "[]"), "][")
		if root[outer] == nil {
			root[outer] = map[string]any{}
		}
		root[outer].(map[string]any)[name], _ = o.value(s, document)
	}
	if len(root) == 0 {
		return document
	}
	return root
}

// text returns the query object.
func (w testQuery) text() string {
	type object = map[string]any
	q := object{}
	var selects []object
	for _, s := range w.selects {
		o := object{"source": s.source, "target": s.target}
		if s.alias != "" {
			o["alias"] = s.alias
		}
		if s.function != "" {
			o["function"] = object{"name": s.function, "intervalsize": json.Number(big.NewRat(max(w.size, 1), 1000).FloatString(3))}
		}
		selects = append(selects, o)
	}
	q["select"] = selects
	if w.left != "" {
		q["where"] = []object{{"operator": w.operator, "left": w.left, "right": w.right}}
	}
	text, _ := json.Marshal(q)
	return string(text)
}

// TestOracle compares random queries with the oracle, and checks that each
// verdict occurred often.
func TestOracle(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	given := map[query.Verdict]int{}
	for range 1000 {
		w := randomQuery(r)
		o, q := &oracle{testQuery: w}, compile(t, w.text())
		s, at := q.NewState(), int64(0)
		for range 12 {
			payload := randomValue(r, 3)
			at += r.Int64N(4000) - 1000
			want, verdict := o.run(payload, at)
			got, v, _ := q.Run(nil, []byte(payload), at, s)
			if v != verdict || v == query.Match && !cmp.Equal(want, tree(got), computed) {
				t.Fatalf("seed %d, query %s, payload %s:\ngot  %d %s\nwant %d %v", seed, w.text(), payload, v, got, verdict, want)
			}
			given[v]++
			s = restored(t, q, s)
		}
	}
	for v := range query.Match + 1 {
		if given[v] < 300 {
			t.Errorf("seed %d: verdict %d was given only %d times", seed, v, given[v])
		}
	}
}

// tree decodes an output; it is nil if that is not JSON.
func tree(output []byte) any {
	document, _ := decode(string(output))
	return document
}

// computed compares a computed number by its value; all other values must be
// spelled alike.
var computed = cmp.FilterValues(func(x, y any) bool {
	_, isX := x.(*big.Rat)
	_, isY := y.(*big.Rat)
	return isX != isY
}, cmp.Comparer(func(x, y any) bool {
	if r, ok := y.(*big.Rat); ok {
		x, y = r, x
	}
	n, ok := y.(json.Number)
	return ok && rat(n).Cmp(x.(*big.Rat)) == 0
}))

// restored returns the state after it was stored and read.
func restored(t *testing.T, q *query.Query, s *query.State) *query.State {
	t.Helper()
	kept := s.Append(nil)
	s, ok := q.Restore(kept)
	if again := s.Append(nil); !ok || string(again) != string(kept) {
		t.Fatalf("restored %v, %x became %x", ok, kept, again)
	}
	return s
}
