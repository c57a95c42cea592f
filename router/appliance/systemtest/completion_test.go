package systemtest

import (
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestCompletionTime completes a name that is asked from the API within 100 ms, with the start of the
// program; on a machine that takes long for that start, within four times of it.
func TestCompletionTime(t *testing.T) {
	t.Parallel()
	const limit, runs = 100 * time.Millisecond, 20
	b := newBulkImport(t, serve(t, dataDir(t), configured(nil)), 100)
	if code, errors := b.run(0, 0); code != 0 {
		t.Fatalf("clients: %s", errors)
	}
	timed := func(want string, args ...string) time.Duration {
		began := time.Now()
		got := command(t, b.env, args...)
		took := time.Since(began)
		if got.code != 0 || want != "" && got.stdout != want {
			t.Fatalf("%q: %+v", args, got)
		}
		return took
	}
	start, completion := suite.HangLimit, suite.HangLimit
	for range runs {
		start = min(start, timed("", "version"))
		completion = min(completion, timed("c000042\n:4\n", "__complete", "client", "delete", "c000042"))
	}
	t.Logf("completion takes %v, the start of the program %v", completion, start)
	if completion > max(limit, 4*start) {
		t.Errorf("completion takes %v, want at most %v, or four times %v", completion, limit, start)
	}
}
