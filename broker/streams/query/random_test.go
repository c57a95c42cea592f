package query_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

var (
	names   = []string{"a", "b", "0", "1", "ü \"x", "Machine Data", "c", "d", "e", "f", "g", "h"}
	numbers = []string{"0", "-0", "1", "2", "3", "-1", "-2.5", "1e0", "10", "0.1", "0.2", "1.50", "12e-1", "1E+2", "9007199254740993", "9007199254740992",
		"9223372036854775807", "-9223372036854775808", "123456789012345678901234567890", "1e20", "1e-9"}
	strs = []string{"", "a", "b", "Hall 3", "ü", "😀", "a\n\"b\"", "1", "true"}
)

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func randomPath(r *rand.Rand, atMost int) string {
	var b strings.Builder
	for range 1 + r.IntN(atMost) {
		b.WriteString("[" + pick(r, names[:6+r.IntN(7)]) + "]")
	}
	return b.String()
}

// randomQuery returns a query. Each target is a member of its own below one of
// three, so that targets do not collide.
func randomQuery(r *rand.Rand) (w testQuery) {
	for i := range r.IntN(12) {
		s := selection{source: randomPath(r, 2), function: pick(r, []string{"", "", "", "min", "max", "sum", "count", "time_bucket"})}
		if r.IntN(8) == 0 {
			s.source = ""
		}
		if s.function == "time_bucket" && w.size > 0 {
			s.function = ""
		}
		if s.function == "time_bucket" {
			w.size = 1 + r.Int64N(5000)
		}
		if r.IntN(4) > 0 {
			s.target = fmt.Sprintf("[%s][t%d]", pick(r, names[:3]), i)
		}
		if r.IntN(2) == 0 {
			s.alias = fmt.Sprint("alias", i)
		}
		if i > 0 && r.IntN(2) == 0 {
			s.source = w.selects[0].source // so that not all messages are invalid
		}
		w.selects = append(w.selects, s)
	}
	if r.IntN(2) == 0 {
		w.left, w.operator = randomPath(r, 2), pick(r, []string{"==", "!=", "<", ">", "<=", ">="})
		for _, s := range w.selects {
			if s.alias != "" && r.IntN(2) == 0 {
				w.left = s.alias
			}
		}
		w.right = pick[any](r, []any{json.Number(pick(r, numbers)), json.Number(pick(r, numbers)), pick(r, strs)})
		if r.IntN(6) == 0 {
			w.right, w.operator = r.IntN(2) == 0, pick(r, []string{"==", "!="})
		}
	}
	return w
}

// randomValue writes a document with everything that JSON permits: whitespace,
// escapes, and repeated names.
func randomValue(r *rand.Rand, depth int) string {
	space := pick(r, []string{"", "", "", " ", "\n\t"})
	switch kind := r.IntN(10); {
	case depth > 0 && kind < 5:
		var members []string
		for range r.IntN(9) {
			members = append(members, space+quote(r, pick(r, names))+space+":"+space+randomValue(r, depth-1)+space)
		}
		return "{" + strings.Join(members, ",") + "}"
	case depth > 0 && kind < 6:
		var elements []string
		for range r.IntN(4) {
			elements = append(elements, space+randomValue(r, depth-1)+space)
		}
		return "[" + strings.Join(elements, ",") + "]"
	case kind < 8:
		return pick(r, numbers)
	case kind < 9:
		return quote(r, pick(r, strs))
	}
	return pick(r, []string{"true", "false", "null"})
}

// quote writes a string, with some escapes that are not necessary.
func quote(r *rand.Rand, s string) string {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c > 0xffff && r.IntN(2) == 0:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		case c < ' ' || c == '"' || c == '\\' || c < 0xffff && r.IntN(8) == 0:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
