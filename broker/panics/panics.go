// Package panics records the panics that the process survives: of one request,
// one connection or one connector of a bridge. Each is a fault of the program,
// so each is logged with its stack and counted (signalbox_panics_total).
//
// It must not import anything of this module.
package panics

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync/atomic"
)

// announce is set by the linker in the test binaries of scripts/test, whose
// loggers may discard everything: a panic is then written to standard error,
// too, where it fails the run.
var announce string

var count atomic.Int64

// Count returns how many panics the process has survived.
func Count() int64 { return count.Load() }

// Log records a panic. It must be called by the deferred function that recovered
// it, so that the stack is still there. msg states what was ended because of the
// panic, text what the panic was about; the caller leaves out what may be secret.
func Log(ctx context.Context, log *slog.Logger, msg, text string, attrs ...slog.Attr) {
	count.Add(1)
	stack := string(debug.Stack())
	attrs = append(attrs, slog.String("panic", text), slog.String("stack", stack))
	log.LogAttrs(ctx, slog.LevelError, msg, attrs...)
	if announce != "" {
		fmt.Fprintf(os.Stderr, "survived panic: %s\n%s\n", text, stack)
	}
}
