// Package suite contains what the tests of all packages share: how long a test waits
// for a condition before it counts as hanging, the seed of random choices, and the
// check that no process of the product panics.
//
// It is imported by tests only. It must not import anything of this module.
package suite

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// HangLimit is how long a test waits for a condition before it fails. It only
// ends tests that would wait for ever: no test may expect anything to happen
// sooner, however slow the machine is.
const HangLimit = 3 * time.Minute

// seedVariable is the environment variable that repeats a run.
const seedVariable = "SIGNALBOX_SEED"

// Seed returns the seed of a test and logs how to repeat it: the one of the run, if
// SeedVariable is set, mixed with the test's name; otherwise a new one.
func Seed(t testing.TB) uint64 {
	t.Helper()
	run := rand.Uint64N(1 << 32)
	if text := os.Getenv(seedVariable); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		run = given
	}
	t.Logf("%s=%d", seedVariable, run)
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", run, t.Name()) //nolint:errcheck // writes to a hash succeed
	return h.Sum64()
}

// Rand returns a source of random numbers from Seed. Goroutines may share it.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(&lockedSource{source: rand.NewPCG(Seed(t), 0)}) //nolint:gosec // a test's
}

type lockedSource struct {
	mu     sync.Mutex // protects source
	source rand.Source
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}

// NoPanic fails the test if the output of a process of the product shows a panic,
// recovered or not, a fatal error of the runtime or a data race.
func NoPanic(t testing.TB, output string) {
	t.Helper()
	if found := Panic(output); found != "" {
		t.Errorf("the process panicked:\n%s", found)
	}
}

// Panic returns the part of the output of a process that shows a panic, or "".
func Panic(output string) string {
	for _, sign := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE", `stack="goroutine `, `"stack":"goroutine `} {
		if i := strings.Index(output, sign); i >= 0 {
			return output[max(0, strings.LastIndex(output[:i], "\n")+1):]
		}
	}
	return ""
}

// Environment returns the environment of this process for one of the product: without the
// variables of the tests, which the product would refuse as settings that it does not have.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SIGNALBOX_") })
}

// FromEnvironment returns the number in an environment variable, otherwise if it is not
// set.
func FromEnvironment(t testing.TB, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
