package console

import (
	"testing"
	"time"

	"signalbox/broker"
)

// TestSoonExpired marks certificates as early as the commands and clusters report them. The package
// imports no other of ours, and so not their constant.
func TestSoonExpired(t *testing.T) {
	t.Parallel()
	if want := broker.CertificateWarningDays * 24 * time.Hour; soonExpired != want {
		t.Errorf("certificates are marked %v before their end, want %v", soonExpired, want)
	}
}
