package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"signalbox/router/client"
)

// The exit codes.
const (
	CodeFailed      = 1
	CodeUsage       = 2   // the command line, or what it sends, is not valid
	CodeNotFound    = 3   // an object does not exist
	CodeDenied      = 4   // not signed in, or not allowed
	CodeConflict    = 5   // the object exists, or its state conflicts
	CodeUnavailable = 6   // the broker or the service is unavailable, and nothing happened
	CodeTimeout     = 7   // no response in time; the change may have happened
	CodePartly      = 8   // some of many objects failed
	CodeInterrupted = 130 // by SIGINT or SIGTERM
)

// UsageError is an invalid command line.
type UsageError struct{ Err error }

// Error returns what is invalid.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// failure is an error with its exit code.
type failure struct {
	code int
	err  error
	raw  []byte // the error object to print instead, with -o json
}

// Error returns the text.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// codes are the exit codes for the codes of the error object.
var codes = map[string]int{
	"NOT_FOUND":    CodeNotFound,
	"UNAUTHORIZED": CodeDenied, "FORBIDDEN": CodeDenied,
	"ALREADY_EXISTS": CodeConflict, "CONFLICT": CodeConflict, "LAST_ADMIN": CodeConflict,
	"BROKER_UNAVAILABLE": CodeUnavailable, "BROKER_TIMEOUT": CodeTimeout,
	"INVALID_REQUEST": CodeUsage, "PAYLOAD_TOO_LARGE": CodeUsage,
}

// ExitCode returns the exit code for an error.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[UsageError](err); ok {
		return CodeUsage
	}
	if answer, ok := errors.AsType[*client.Error](err); ok {
		if code, known := codes[answer.Code]; known {
			return code
		}
		return CodeFailed
	}
	if lost, ok := errors.AsType[*client.ConnectionError](err); ok {
		return connectionCode(lost)
	}
	return CodeFailed
}

func connectionCode(e *client.ConnectionError) int {
	switch {
	case errors.Is(e, context.Canceled):
		return CodeInterrupted
	case !e.Sent:
		return CodeUnavailable
	}
	return CodeTimeout
}

// Describe returns the text of an error for standard error, as one or more lines; "" for
// none, and for a check, whose line is on standard output.
func Describe(err error) string {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*failure](err); ok && f.raw != nil {
		return string(f.raw)
	}
	text := "signalbox: " + printableLines(err.Error())
	if answer, ok := errors.AsType[*client.Error](err); ok && answer.Code == "UNAUTHORIZED" {
		text += "; \"signalbox help command-line\" shows how to sign in"
	}
	return text
}

// printableLines escapes control characters in each line.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
