package handlers

import (
	"errors"
	"math"
	"testing"
)

func TestUnixSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		`"1763640000"`: 1763640000, `1763640000.25`: 1763640000.25, `"-1.5"`: -1.5, `1e3`: 1000, `"0"`: 0,
	} {
		var u UnixSeconds
		if err := u.UnmarshalJSON([]byte(text)); err != nil || u.value == nil || *u.value != want {
			t.Errorf("%s: got %v, %v, want %v", text, u.value, err, want)
		}
	}
	for _, text := range []string{`""`, `null`} {
		var u UnixSeconds
		if err := u.UnmarshalJSON([]byte(text)); err != nil || u.value != nil {
			t.Errorf("%s is taken for %v, %v", text, u.value, err)
		}
	}
	for _, text := range []string{`"today"`, `"NaN"`, `"inf"`, `"0x10"`, `"1_0"`, `" 1"`, `"1e999"`, `true`, `{}`, `[1]`, `"`} {
		var u UnixSeconds
		if err := u.UnmarshalJSON([]byte(text)); !isFieldType(err) {
			t.Errorf("%s is taken for %v, %v", text, u.value, err)
		}
	}
}

func TestReplaySpeed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{`0`: 0, `1`: 1, `2.5`: 2.5, `"original"`: 1, `"fastest"`: 0} {
		var s ReplaySpeed
		if err := s.UnmarshalJSON([]byte(text)); err != nil || s.value == nil || *s.value != want {
			t.Errorf("%s: got %v, %v, want %v", text, s.value, err, want)
		}
	}
	for _, text := range []string{`-0.1`, `"2"`, `""`, `"Fastest"`, `true`, `[]`, `1e999`} {
		var s ReplaySpeed
		if err := s.UnmarshalJSON([]byte(text)); !isFieldType(err) {
			t.Errorf("%s is taken for %v, %v", text, s.value, err)
		}
	}
}

func isFieldType(err error) bool {
	_, ok := errors.AsType[*FieldTypeError](err)
	return ok
}

func TestClearStreamRange_wants_a_bound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gte, lte string
		bad      []string
	}{
		{"", "", []string{"query.gte"}}, {"x", "y", []string{"query.gte", "query.lte"}}, {"2", "1", []string{"query.lte"}},
		{"1", "", nil}, {"", "1.5", nil}, {"1", "1", nil}, {"nan", "", []string{"query.gte"}},
	} {
		r := ClearStreamRangeRequest{GTE: c.gte, LTE: c.lte}
		var got []string
		for _, f := range r.Validate() {
			got = append(got, f.Field)
		}
		if len(got) != len(c.bad) || len(got) > 0 && got[0] != c.bad[0] {
			t.Errorf("%q to %q: got %q, want %q", c.gte, c.lte, got, c.bad)
		}
		if c.bad == nil && (r.gte == nil) != (c.gte == "") {
			t.Errorf("%q to %q: read as %v", c.gte, c.lte, r.gte)
		}
	}
}

func FuzzUnixSeconds(f *testing.F) {
	for _, seed := range []string{`""`, `"1.5"`, `17`, `null`, `"NaN"`, `"x"`, `{}`, `"`, `"0x1p4"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var u UnixSeconds
		if err := u.UnmarshalJSON([]byte(text)); err == nil && u.value != nil && (math.IsNaN(*u.value) || math.IsInf(*u.value, 0)) {
			t.Errorf("%q is taken for a time that is none", text)
		}
	})
}

func FuzzReplaySpeed(f *testing.F) {
	for _, seed := range []string{`"original"`, `"fastest"`, `2.5`, `0`, `-1`, `null`, `"x"`, `1e999`, `-0`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s ReplaySpeed
		if err := s.UnmarshalJSON([]byte(text)); err == nil && s.value != nil && (!(*s.value >= 0) || math.IsInf(*s.value, 0)) {
			t.Errorf("%q is taken for the speed %v", text, *s.value)
		}
	})
}
