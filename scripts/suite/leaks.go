package suite

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and ends the process, as TestMain does. It fails if
// a goroutine of the tests is left, after clean was called.
func Main(m *testing.M, clean ...func() error) {
	code := m.Run()
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	for _, f := range clean {
		fail(f())
	}
	if code == 0 {
		fail(Leaks())
	}
	os.Exit(code)
}

// Leaks returns an error if goroutines are left that do not end. It waits for those
// that are about to end: the library waits only half a second.
func Leaks(options ...goleak.Option) error {
	left := goleak.Find(options...)
	for began := time.Now(); left != nil && time.Since(began) < HangLimit; {
		left = goleak.Find(options...)
	}
	return left
}
