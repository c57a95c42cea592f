package query_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestStateGoesOnWhereItWasKept(t *testing.T) {
	t.Parallel()
	q := compile(t, example)
	s := q.NewState()
	for i, want := range []string{
		`{"Data":{"SpeedMax":1,"Sum":1},"bucket":15,"n":1,"Location":"Hall 3"}`,
		`{"Data":{"SpeedMax":1,"Sum":2},"bucket":15,"n":2,"Location":"Hall 3"}`,
		`{"Data":{"SpeedMax":1.5,"Sum":3.5},"bucket":15,"n":3,"Location":"Hall 3"}`,
		`{"Data":{"SpeedMax":1.5,"Sum":5},"bucket":15,"n":4,"Location":"Hall 3"}`,
	} {
		payload := fmt.Sprintf(`{"Location":"Hall 3","Machine Data":{"Speed":%v}}`, []float64{1, 1.5}[i/2])
		if got := run(q, s, payload, 20); got != want {
			t.Errorf("message %d: got %s, want %s", i, got, want)
		}
		s = restored(t, q, s)
	}
	if got, want := string(s.Append([]byte("before"))), "before"+string(s.Append(nil)); got != want {
		t.Errorf("appended %q, want %q", got, want)
	}
}

// TestRestoreRefuses flips every bit of a state, and cuts it at every byte.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	q := compile(t, example)
	s := q.NewState()
	run(q, s, `{"Machine Data":{"Speed":1.5},"Location":"Hall 3"}`, 20)
	kept, fresh := s.Append(nil), string(q.NewState().Append(nil))
	refuse := func(b []byte, what string) {
		if s, ok := q.Restore(b); ok || string(s.Append(nil)) != fresh {
			t.Errorf("%s: restored %v, and a state of %x", what, ok, s.Append(nil))
		}
	}
	for i := range kept {
		refuse(kept[:i], fmt.Sprintf("cut at %d", i))
		for bit := range 8 {
			b := append([]byte(nil), kept...)
			b[i] ^= 1 << bit
			refuse(b, fmt.Sprintf("byte %d, bit %d", i, bit))
		}
	}
	refuse(append(kept, 0), "longer")
	body := kept[:len(kept)-4]
	refuse(withChecksum(append([]byte{body[0] + 1}, body[1:]...)), "another version")
	refuse(withChecksum(append(body[:len(body):len(body)], 0)), "more than there should be")
}

// TestFingerprint checks which changes of a query reset its aggregates.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	const base = `{"select":[{"source":"[a]","target":"[x]","alias":"s","function":{"name":"sum"}},{"source":"[b]","target":"[b]","alias":"b"},
		{"target":"[t]","function":{"name":"time_bucket","intervalsize":60,"intervaloffset":5}}],"where":[{"left":"b","operator":">","right":1}]}`
	for _, c := range []struct {
		name, query string
		same        bool
	}{
		{"the same", base, true},
		{"other targets and aliases", `{"select":[{"source":"[a]","target":"[y]","function":{"name":"sum"}},
			{"function":{"name":"time_bucket","intervalsize":60.0,"intervaloffset":65}}],"where":[{"left":"[b]","operator":">","right":1}]}`, true},
		{"another source", replaced(base, `"[a]"`, `"[c]"`), false},
		{"another function", replaced(base, `"sum"`, `"max"`), false},
		{"another interval", replaced(base, `60`, `61`), false},
		{"another offset", replaced(base, `5}`, `6}`), false},
		{"another condition", replaced(base, `"right":1`, `"right":2`), false},
		{"another operator", replaced(base, `">"`, `"<"`), false},
		{"a literal of another type", replaced(base, `"right":1`, `"right":"1"`), false},
		{"a condition on something else", replaced(base, `"left":"b"`, `"left":"[c]"`), false},
		{"a condition on the result", replaced(base, `"left":"b"`, `"left":"s"`), false},
		{"one more aggregate", replaced(base, `"select":[`, `"select":[{"function":{"name":"count"}},`), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, same := compile(t, c.query).Restore(compile(t, base).NewState().Append(nil)); same != c.same {
				t.Errorf("restored %v, want %v", same, c.same)
			}
		})
	}
}

func TestRunWithoutState(t *testing.T) {
	t.Parallel()
	q := compile(t, `{"select":[{"source":"[a]","target":"[x]"},{"source":"[a]","target":"[m]","function":{"name":"max"}},{"target":"[n]","function":{"name":"count"}}]}`)
	for a := 9; a > 0; a-- {
		if got, want := run(q, nil, fmt.Sprintf(`{"a":%d}`, a), 0), fmt.Sprintf(`{"x":%d,"m":%d,"n":1}`, a, a); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestRunKeepsNothing overwrites payload and output after a run.
func TestRunKeepsNothing(t *testing.T) {
	t.Parallel()
	q := compile(t, `{"select":[{"source":"[a]","target":"[m]","function":{"name":"max"}}]}`)
	s := q.NewState()
	payload := []byte(`{"a":7}`)
	out, _, _ := q.Run(nil, payload, 0, s)
	clear(payload)
	clear(out)
	if got := run(q, s, `{"a":3}`, 0); got != `{"m":7}` {
		t.Errorf("got %s, want the 7 of before", got)
	}
}

// TestRestoreRefusesNonsense reads states with a valid checksum that Append
// never writes. Their buckets start at 0.
func TestRestoreRefusesNonsense(t *testing.T) {
	t.Parallel()
	float := func(value, rest float64) string {
		b := binary.LittleEndian.AppendUint64([]byte{1}, math.Float64bits(value))
		return string(binary.LittleEndian.AppendUint64(b, math.Float64bits(rest)))
	}
	long := strings.Repeat("1", 1025)
	for _, c := range []struct {
		name, function string
		count          int64
		value          string
		ok             bool
	}{
		{"an extreme", "max", 1, "\x031.5", true},
		{"an extreme that is cut", "max", 1, "\x041.5", false},
		{"an extreme that is missing", "max", 1, "\x00", false},
		{"an extreme of no messages", "max", 0, "\x011", false},
		{"an extreme that is not a number", "min", 1, "\x021x", false},
		{"an extreme that is too long", "min", 1, "\x81\x08" + long, false},
		{"an extreme of the greatest length", "min", 1, "\x80\x08" + long[1:], true},
		{"an extreme with an endless length", "min", 1, strings.Repeat("\xff", 11), false},
		{"less than no messages", "max", -1, "\x00", false},
		{"a whole sum", "sum", 1, "\x00\x02", true},
		{"a sum of floats", "sum", 1, float(1, 0), true},
		{"a sum of three floats", "sum", 1, "\x02" + float(1e16, 1)[1:] + strings.Repeat("\x00", 8), true},
		{"a sum of floats that is cut", "sum", 1, "\x02", false},
		{"a sum of too many floats", "sum", 1, "\x40" + strings.Repeat("\x00", 65*8), false},
		{"an infinite sum", "sum", 1, float(math.Inf(1), 0), false},
		{"a sum that is not a number", "sum", 1, float(math.NaN(), 0), false},
		{"a sum with an infinite rest", "sum", 1, float(1, math.Inf(-1)), false},
		{"a sum with a rest that is not a number", "sum", 1, float(1, math.NaN()), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := compile(t, `{"select":[{"source":"","target":"[x]","function":{"name":"`+c.function+`"}}]}`)
			b := append(q.NewState().Append(nil)[:9], 0)
			b = append(binary.AppendVarint(b, c.count), c.value...)
			if _, ok := q.Restore(withChecksum(b)); ok != c.ok {
				t.Errorf("restored %v, want %v", ok, c.ok)
			}
		})
	}
}
