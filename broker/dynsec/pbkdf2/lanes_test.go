//go:build goexperiment.simd && amd64

package pbkdf2

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestLanes derives keys in every number of lanes, with all vector registers that this processor has.
func TestLanes(t *testing.T) {
	t.Parallel()
	if lanes == 1 {
		t.Skip("this processor has no vector registers that are wide enough")
	}
	for calls := 1; calls <= 8; calls++ {
		if lanes == mostLanes {
			testLanes(t, calls, func(batch []*call) { deriveTogether(batch, compressAVX512, iterateAVX512) })
		}
		if calls <= 4 {
			testLanes(t, calls, func(batch []*call) { deriveTogether(batch, compressAVX2, iterateAVX2) })
		}
	}
}

func testLanes(t *testing.T, calls int, derive func(batch []*call)) {
	t.Helper()
	for _, length := range []int{0, 1, 8, 127, 128, 129, 500} {
		for _, iterations := range []int{1, 2, 3, 50} {
			var batch []*call
			for n := range calls {
				batch = append(batch, &call{password: bytes.Repeat([]byte{byte(n)}, length), salt: fmt.Appendf(nil, "salt %d", n), iterations: iterations})
			}
			derive(batch)
			for n, c := range batch {
				want := *c
				if want.derive(); want.err != nil || !bytes.Equal(c.key, want.key) {
					t.Errorf("%d calls, password of %d bytes, %d iterations, lane %d: got %x, want %x", calls, length, iterations, n, c.key, want.key)
				}
			}
		}
	}
}

// TestGenerated generates the files again.
func TestGenerated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := dir + "/generate"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./generate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	generate := exec.CommandContext(t.Context(), program)
	generate.Dir = dir
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"sha512_avx512.go", "sha512_avx2.go"} {
		got, err := os.ReadFile(name)
		want, err2 := os.ReadFile(dir + "/" + name)
		if err != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what go generate writes (%v, %v)", name, err, err2)
		}
	}
}
