package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"time"
	"unicode/utf8"
)

// The bounds of a caller's regular expression. RE2 takes time in proportion to the text
// times the size of the compiled expression, so the size has to be bounded; the length
// bounds the cost of compiling.
const (
	maxExpressionLength = 1000            // bytes
	maxExpressionSize   = 1000            // instructions
	maxExpressionTime   = 5 * time.Second // for all texts of one list
)

// ErrFilterTime is returned by a Match that has exhausted its time.
var ErrFilterTime = errors.New("takes too long on this list: use a simpler expression, or another filterMode")

// expression is a caller's regular expression, for one list. It is not safe for
// concurrent use.
type expression struct {
	re   *regexp.Regexp
	size int           // instructions
	left time.Duration // until ErrFilterTime
	now  func() time.Time
}

// newExpression compiles a pattern within the bounds.
func newExpression(pattern string, now func() time.Time) (*expression, error) {
	if len(pattern) > maxExpressionLength {
		return nil, fmt.Errorf("must not be longer than %d bytes", maxExpressionLength)
	}
	size, err := expressionSize(pattern)
	if err != nil {
		return nil, err
	}
	if size > maxExpressionSize {
		return nil, fmt.Errorf("is too large an expression: it compiles to %d instructions, %d are allowed; use smaller repetition counts", size, maxExpressionSize)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return &expression{re: re, size: size, left: maxExpressionTime, now: now}, nil
}

// expressionSize returns the number of instructions that a pattern compiles to.
func expressionSize(pattern string) (int, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), nil
}

// shortWork is the size of an expression times the length of a text up to which a match
// is not interrupted: a few milliseconds at most.
const shortWork = 1 << 18

// match reports whether the expression matches s. Its error is the context's, or
// ErrFilterTime.
func (e *expression) match(ctx context.Context, s string) (bool, error) {
	start := e.now()
	found, err := false, error(nil)
	if len(s)*e.size <= shortWork {
		found = e.re.MatchString(s)
	} else {
		found, err = e.matchLong(ctx, s, start.Add(e.left))
	}
	if e.left -= e.now().Sub(start); e.left <= 0 {
		return false, ErrFilterTime
	}
	return found, err
}

// matchLong is match for a text on which the expression may take long: package regexp
// cannot be interrupted, but its input can end.
func (e *expression) matchLong(ctx context.Context, s string, deadline time.Time) (bool, error) {
	var stopped error
	r := &runes{text: s, every: max(1, shortWork/e.size), check: func() bool {
		stopped = ctx.Err()
		return stopped == nil && e.now().Before(deadline)
	}}
	found := e.re.MatchReader(r)
	return found && !r.ended, stopped
}

// runes reads a text until check, which is called periodically, returns false.
type runes struct {
	text  string
	every int
	check func() bool

	read  int
	ended bool // before the end of the text
}

// ReadRune implements io.RuneReader.
func (r *runes) ReadRune() (rune, int, error) {
	if r.read++; r.read%r.every == 0 && !r.ended {
		r.ended = !r.check()
	}
	if r.text == "" || r.ended {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRuneInString(r.text)
	r.text = r.text[n:]
	return c, n, nil
}
