package panics

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	var out bytes.Buffer
	before := Count()
	func() {
		defer func() {
			Log(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), "a request failed", fmt.Sprint(recover()), slog.Int("n", 7))
		}()
		panic("deliberate")
	}()
	for _, want := range []string{"level=ERROR", `msg="a request failed"`, "n=7", "panic=deliberate", "panics_test.go"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q: %s", want, &out)
		}
	}
	if got := Count() - before; got != 1 {
		t.Errorf("counted %d panics, want 1", got)
	}
}
