package store

import (
	"strings"
	"testing"
)

func TestResponsesAreStoredSeparately(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string][2]string{
		joinResponse("it is bad", ""):                                      {"it is bad", ""},
		joinResponse("the server answered 422", "top secret"):              {"the server answered 422", "top secret"},
		joinResponse("a\x1fb", "c\x1fd"):                                   {"a b", "c\x1fd"},
		joinResponse(strings.Repeat("r", 2000), strings.Repeat("a", 2000)): {strings.Repeat("r", maxReason), strings.Repeat("a", maxResponse)},
		// Formats of older versions.
		"the server answered 422 Unprocessable Entity: top: secret":                          {"the server answered 422 Unprocessable Entity", "top: secret"},
		"given up after 3 attempts: the server answered 503 Service Unavailable: top secret": {"given up after 3 attempts: the server answered 503 Service Unavailable", "top secret"},
		"the server answered 404 Not Found":                                                  {"the server answered 404 Not Found", ""},
		"InfluxDB does not take the point: top secret":                                       {"InfluxDB does not take the point", "top secret"},
		`the server answered 302 Found and leads to "http://in/?top=secret"; redirections are not followed: give that`: {
			"the server answered 302 Found; redirections are not followed: give that", `"http://in/?top=secret"`},
		"its table: is missing": {"its table: is missing", ""},
	} {
		if reason, answer := splitResponse(stored); reason != want[0] || answer != want[1] {
			t.Errorf("%q: got %q and %q, want %q", stored, reason, answer, want)
		}
	}
}

func FuzzSplitResponse(f *testing.F) {
	for _, seed := range []string{"", "a", "the server answered 422: x", "a\x1fb", `the server answered 302 and leads to "x"; redirections are not followed`} {
		f.Add(seed, "answer")
	}
	f.Fuzz(func(t *testing.T, reason, answer string) {
		if got, _ := splitResponse(reason); len(got) > len(reason) {
			t.Errorf("%q became longer: %q", reason, got)
		}
		stored := joinResponse(reason, answer)
		if len(stored) > maxReason+maxResponse+1 {
			t.Errorf("%d bytes are stored", len(stored))
		}
		if got, _ := splitResponse(stored); answer != "" && got != clip(strings.ReplaceAll(reason, responseSeparator, " "), maxReason) {
			t.Errorf("reason %q came back as %q", reason, got)
		}
	})
}
