package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		events  []string
		want    string
		skipped int
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
			want: "ok  \tp\t0.1s\nskipped tests: 0\n",
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
			want: "    a_test.go:1: got 1\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tp\t0.1s\nskipped tests: 0\n",
		},
		{
			name: "a test that never ended is heard",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: "panic: boom\nFAIL\tp\t0.1s\nskipped tests: 0\n",
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
			want:    "ok  \tp\t0.1s\nskipped tests: 1\n\tp TestA: a_test.go:1: no moon tonight\n",
			skipped: 1,
		},
		{
			name: "a package that does not build is heard",
			events: []string{
				`{"ImportPath":"p","Action":"build-output","Output":"p/a.go:1: undefined: x\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: "p/a.go:1: undefined: x\nFAIL\tp [build failed]\nskipped tests: 0\n",
		},
		{
			name:   "what is no event is passed on",
			events: []string{`go: downloading example.com/x v1.0.0`},
			want:   "go: downloading example.com/x v1.0.0\nskipped tests: 0\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			skipped, err := run(strings.NewReader(strings.Join(tt.events, "\n")), &out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if skipped != tt.skipped {
				t.Errorf("skipped: got %d, want %d", skipped, tt.skipped)
			}
		})
	}
}
