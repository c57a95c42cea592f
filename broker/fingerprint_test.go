package broker_test

import (
	"strings"
	"testing"

	"signalbox/broker"
)

func TestParseFingerprint(t *testing.T) {
	t.Parallel()
	want := broker.FingerprintOf([]byte("certificate"))
	shown := want.String()
	plain := strings.ReplaceAll(shown, ":", "")
	for _, text := range []string{shown, strings.ToLower(shown), plain, strings.ToLower(plain)} {
		if got, err := broker.ParseFingerprint(text); err != nil || got != want {
			t.Errorf("ParseFingerprint(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "AB", plain[:62], plain + "00", shown + ":", ":" + plain, strings.Replace(shown, ":", "::", 1), strings.Replace(plain, "0", "g", 1) + "g", "sha256:" + plain} {
		if _, err := broker.ParseFingerprint(text); err == nil {
			t.Errorf("ParseFingerprint(%q) accepts it", text)
		}
	}
}

func FuzzParseFingerprint(f *testing.F) {
	f.Add(broker.FingerprintOf(nil).String())
	f.Add("ab:cd")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := broker.ParseFingerprint(text)
		if err != nil {
			return
		}
		if again, err := broker.ParseFingerprint(parsed.String()); err != nil || again != parsed {
			t.Errorf("%q becomes %v and then %v, %v", text, parsed, again, err)
		}
	})
}
