package handlers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/db"
	"signalbox/handlers/auth"
)

func TestErrorFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		give   error
		status int
		code   string
	}{
		{auth.ErrUnauthenticated, 401, CodeUnauthorized},
		{auth.ErrUsersOnly, 403, CodeForbidden},
		{&auth.TooManyAttempts{RetryAfter: time.Second}, 429, CodeTooManyAttempts},
		{db.ErrNotFound, 404, CodeNotFound},
		{db.ErrExists, 400, CodeAlreadyExists},
		{db.ErrInUse, 400, CodeConflict},
		{db.ErrConflict, 400, CodeConflict},
		{db.ErrLastRoot, 400, CodeLastAdmin},
		{db.ErrUnconfirmed, 503, CodeBrokerTimeout},
		{db.ErrNoKey, 503, CodeBrokerUnavailable},
		{db.ErrUnavailable, 503, CodeBrokerUnavailable},
		{&broker.Error{Kind: broker.NotFound}, 404, CodeNotFound},
		{&broker.Error{Kind: broker.Exists}, 400, CodeAlreadyExists},
		{&broker.Error{Kind: broker.Conflict}, 400, CodeConflict},
		{&broker.Error{Kind: broker.Invalid}, 400, CodeInvalidRequest},
		{&broker.Error{Kind: broker.Denied}, 503, CodeBrokerUnavailable},
		{&broker.Error{Kind: broker.Unavailable}, 503, CodeBrokerUnavailable},
		{&broker.Error{Kind: broker.Unconfirmed}, 503, CodeBrokerTimeout},
		{&broker.Error{Kind: broker.Internal}, 500, CodeBrokerError},
		{broker.NotSupported("op", broker.CapStreams), 405, CodeNotSupported},
		{context.DeadlineExceeded, 500, CodeInternalError},
		{errors.New("disk on fire"), 500, CodeInternalError},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			e := ErrorFor(fmt.Errorf("wrapped: %w", c.give))
			if e.Status != c.status || e.Code != c.code {
				t.Errorf("%v: got %d %s, want %d %s", c.give, e.Status, e.Code, c.status, c.code)
			}
			if e.Code == CodeInternalError && strings.Contains(e.Message, "fire") {
				t.Errorf("the cause reaches the caller: %q", e.Message)
			}
		})
	}
}

// TestErrorFor_tooManyAttempts states a time after which an attempt is allowed, also at the end of
// the delay.
func TestErrorFor_tooManyAttempts(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		time.Nanosecond: "1s", time.Second: "1s", 1400 * time.Millisecond: "2s", 15 * time.Minute: "15m0s",
	} {
		e := ErrorFor(&auth.TooManyAttempts{RetryAfter: wait})
		for _, got := range []string{e.Message, e.Cause.Error()} {
			if !strings.HasSuffix(got, " try again in "+want) {
				t.Errorf("%s: got %q, want %s", wait, got, want)
			}
		}
	}
}

// TestManualListsEveryCode compares the manual's table with the constants.
func TestManualListsEveryCode(t *testing.T) {
	t.Parallel()
	codes := func(file, pattern string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return found
	}
	want := codes("errors.go", `Code\w+ += "([A-Z_]+)"`)
	got := codes("../router/manual/errors.md", "(?m)^\\| `([A-Z_]+)` \\|")
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("codes in the manual: got %q, want %q", got, want)
	}
}

func TestValidDate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "0001-01-01T00:00:00Z",
		"2027-01-31":                "2027-01-31T23:59:59.999Z",
		"2027-01-31T12:00:00Z":      "2027-01-31T12:00:00Z",
		"2027-01-31T12:00:00+02:00": "2027-01-31T12:00:00+02:00",
		"31.01.2027":                "",
		"2027-13-01":                "",
	} {
		got, err := validDate(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken for %v", text, got)
			}
			continue
		}
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: got %v, %v, want %s", text, got.Format(time.RFC3339Nano), err, want)
		}
	}
}

func TestErrorFor_names_the_fields_that_a_broker_named(t *testing.T) {
	t.Parallel()
	bad := &broker.Error{Kind: broker.Invalid, Msg: "two members are wrong", Fields: []broker.Field{
		{Path: "sourcetopic", Msg: "must not begin with $"}, {Path: "query.select[1].source", Msg: "is no path"}}}
	for name, c := range map[string]struct {
		give error
		want []FieldError
	}{
		"as named": {bad, []FieldError{{"body.sourcetopic", "must not begin with $"}, {"body.query.select[1].source", "is no path"}}},
		"as spelt": {renamed(fmt.Errorf("wrapped: %w", bad), map[string]string{"sourcetopic": "sourceTopic", "targettopic": "x"}),
			[]FieldError{{"body.sourceTopic", "must not begin with $"}, {"body.query.select[1].source", "is no path"}}},
		"none": {&broker.Error{Kind: broker.Invalid, Msg: "is wrong"}, []FieldError{{"body", "is wrong"}}},
	} {
		e := ErrorFor(c.give)
		if got, _ := e.Info["errors"].([]FieldError); !slices.Equal(got, c.want) || e.Status != 400 || e.Code != CodeInvalidRequest {
			t.Errorf("%s: got %d %s %v, want %v", name, e.Status, e.Code, got, c.want)
		}
	}
	if bad.Fields[0].Path != "sourcetopic" {
		t.Error("renaming changes the error itself")
	}
}
