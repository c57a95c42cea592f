package suite

import "testing"

// recorder records whether a test under test fails.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestNoPanic(t *testing.T) {
	tests := map[string]struct {
		output string
		want   bool
	}{
		"an ordinary log":         {"level=INFO msg=ready\nlevel=ERROR msg=\"the disk is full\"\n", false},
		"a panic":                 {"level=INFO msg=ready\npanic: log not found\n\ngoroutine 7 [running]:\n", true},
		"an error of the runtime": {"fatal error: concurrent map writes\n", true},
		"a survived panic":        {"level=ERROR msg=\"a request could not be handled\" panic=x stack=\"goroutine 9 [running]:\"\n", true},
		"a survived panic, JSON":  {`{"level":"ERROR","panic":"x","stack":"goroutine 9 [running]:"}` + "\n", true},
		"a data race":             {"==================\nWARNING: DATA RACE\n", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			if NoPanic(r, tt.output); r.failed != tt.want {
				t.Errorf("failed: %t, want %t", r.failed, tt.want)
			}
		})
	}
}

func TestSeed_repeats(t *testing.T) {
	t.Setenv(seedVariable, "7")
	if a, b := Seed(t), Seed(t); a != b {
		t.Errorf("two seeds of one run: %d and %d", a, b)
	}
	first := Seed(t)
	t.Run("another test", func(t *testing.T) {
		if Seed(t) == first {
			t.Error("two tests share a seed")
		}
	})
}
