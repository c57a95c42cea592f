package broker

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// tick returns a clock that advances by a step whenever it is read.
func tick(step time.Duration) func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(step)
		return now
	}
}

// costly is an expression that is close to the largest allowed.
const costly = `(?:.{0,30}a){15}$`

func compiled(t *testing.T, pattern string, now func() time.Time) *expression {
	t.Helper()
	e, err := newExpression(pattern, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExpressionsAreBounded(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		`^(pump|valve)-\d{1,4}$`: true, costly: true, `(?i)^[^/]+/state$`: true,
		`(`: false, strings.Repeat(`(?:.{0,1000}a)`, 100): false, `(?:.{31}){32}a{30}`: false, `.{1000}`: false,
		strings.Repeat("a", maxExpressionLength+1): false, strings.Repeat("a", maxExpressionLength-10): true,
	} {
		if _, err := newExpression(pattern, time.Now); (err == nil) != want {
			t.Errorf("%.40q: got %v, want it taken: %v", pattern, err, want)
		}
	}
}

// A list that takes too long ends, however many short texts it consists of.
func TestExpressionTimeIsBounded(t *testing.T) {
	t.Parallel()
	e := compiled(t, "a", tick(time.Second))
	for i := range 10 {
		_, err := e.match(t.Context(), "aaa")
		if errors.Is(err, ErrFilterTime) {
			if i == 0 {
				t.Error("there is no time at all")
			}
			return
		}
	}
	t.Error("10 texts at a second each took no time")
}

// A single text on which the expression takes long is not read to its end.
func TestExpressionIsInterrupted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("b", 10<<20)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		step time.Duration
		want error
	}{
		"the caller left":      {ended, time.Microsecond, context.Canceled},
		"the time is used up":  {t.Context(), maxExpressionTime, ErrFilterTime},
		"after several checks": {t.Context(), maxExpressionTime / 4, ErrFilterTime},
	} {
		e, reads := compiled(t, costly, nil), 0
		clock := tick(c.step)
		e.now = func() time.Time { reads++; return clock() }
		found, err := e.match(c.ctx, long)
		if found || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, found, err, c.want)
		}
		if reads > 10 {
			t.Errorf("%s: went on for %d checks", name, reads)
		}
	}
}

// FuzzExpression compares interruptible matches with package regexp.
func FuzzExpression(f *testing.F) {
	f.Add(`^a+$`, "aaa")
	f.Add(`(?i)PUMP-\d+$`, "pump-7\nx")
	f.Add(`\bé\b`, "é \xff")
	f.Add(costly, strings.Repeat("a", 100))
	f.Fuzz(func(t *testing.T, pattern, text string) {
		e, err := newExpression(pattern, tick(0))
		if err != nil {
			return
		}
		if n := len(e.re.String()); n > maxExpressionLength || e.size > maxExpressionSize {
			t.Fatalf("%q of %d bytes and %d instructions was taken", pattern, n, e.size)
		}
		want := regexp.MustCompile(pattern).MatchString(text)
		short, err := e.match(t.Context(), text)
		if short != want || err != nil {
			t.Errorf("%q on %q: got %v, %v, want %v", pattern, text, short, err, want)
		}
		if long, err := e.matchLong(t.Context(), text, time.Unix(1, 0)); utf8.ValidString(text) && (long != want || err != nil) {
			t.Errorf("%q on %q, interruptible: got %v, %v, want %v", pattern, text, long, err, want)
		}
	})
}
