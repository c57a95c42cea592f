package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		events  []string
		want    string
		closing string
		fails   bool
		ci      bool
	}{
		{
			name: "a package that passes is one line",
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: chatter\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:    "[1/2] ok  \tp\t0.1s\n",
			closing: "1 passed, 0 failed, 0 skipped\n",
		},
		{
			name: "a failed test is heard, its neighbour is not",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: got 1\n"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:9: fine\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\n"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:    "[1/2]     a_test.go:1: got 1\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tp\t0.1s\n",
			closing: "1 passed, 1 failed, 0 skipped\n", fails: true,
		},
		{
			name: "a test that never ended is heard",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:    "[1/2] panic: boom\nFAIL\tp\t0.1s\n",
			closing: "0 passed, 1 failed, 0 skipped\n", fails: true,
		},
		{
			name: "a skipped test is named with its reason",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no moon tonight\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:    "[1/2] ok  \tp\t0.1s\n",
			closing: "skipped: p TestA: a_test.go:1: no moon tonight\n0 passed, 0 failed, 1 skipped\n",
		},
		{
			name: "a package that does not build is heard",
			events: []string{
				`{"ImportPath":"p","Action":"build-output","Output":"p/a.go:1: undefined: x\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:    "p/a.go:1: undefined: x\n[1/2] FAIL\tp [build failed]\n",
			closing: "0 passed, 1 failed, 0 skipped\n", fails: true,
		},
		{
			name:    "what is no event is passed on",
			events:  []string{`go: downloading example.com/x v1.0.0`},
			want:    "go: downloading example.com/x v1.0.0\n",
			closing: "0 passed, 0 failed, 0 skipped\n",
		},
		{
			name: "a skipped test fails where CI is set", ci: true,
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no moon tonight\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			closing: "skipped: p TestA: a_test.go:1: no moon tonight\nFAIL: CI is set, so a skipped test is a failure\n0 passed, 0 failed, 1 skipped\n", fails: true,
		},
		{
			name: "a panic that was survived fails the package",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"survived panic: index out of range\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"goroutine 7 [running]:\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:    "[1/2] survived panic: index out of range\ngoroutine 7 [running]:\nok  \tp\t0.1s\n",
			closing: "panic: p TestA: index out of range\nFAIL: the product panicked in these packages\n1 passed, 1 failed, 0 skipped\n", fails: true,
		},
		{
			name: "a data race is reported whatever test it is ascribed to",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"==================\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"Write at 0x1 by goroutine 7:\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"==================\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Test":"TestC","Output":"    testing.go:1: race detected during execution of test\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestC"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:    "[1/2]     testing.go:1: race detected during execution of test\n",
			closing: "data race: p\nWARNING: DATA RACE\nWrite at 0x1 by goroutine 7:\n2 passed, 1 failed, 0 skipped\n", fails: true,
		},
		{
			name: "a deliberate panic is none",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"survived panic: deliberate\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:    "[1/2] ok  \tp\t0.1s\n",
			closing: "1 passed, 0 failed, 0 skipped\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out, closing strings.Builder
			outcome, err := run(strings.NewReader(strings.Join(tt.events, "\n")), &out, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if ok := outcome.report(&closing, tt.ci); ok == tt.fails {
				t.Errorf("succeeded: %t", ok)
			}
			if diff := cmp.Diff(tt.closing, closing.String()); diff != "" {
				t.Errorf("closing lines (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTick shows that a run that prints nothing names the tests that run.
func TestTick(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	ticks, printed := make(chan time.Time), make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		_, err := run(r, lines(printed), 0, ticks)
		ended <- err
	}()
	fmt.Fprintln(w, `{"Action":"run","Package":"p","Test":"TestA"}`)
	fmt.Fprintln(w, `{"Action":"run","Package":"p","Test":"TestB"}`)
	fmt.Fprintln(w, `{"Action":"pass","Package":"p","Test":"TestA"}`)
	fmt.Fprintln(w, `{"Action":"output","Package":"p","Test":"TestB","Output":"x"}`)
	fmt.Fprintln(w, "all of it was read")
	if got, want := <-printed, "all of it was read\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	ticks <- time.Time{} // something was printed since the last one
	ticks <- time.Time{}
	if got, want := <-printed, "... p: TestB\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	w.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// lines is a writer to a channel.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}
