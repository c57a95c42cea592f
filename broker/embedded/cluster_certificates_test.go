package embedded

import (
	"fmt"
	"os"
	"testing"
	"time"

	"signalbox/broker/embedded/listen"
)

// TestClusterWarnsOfCertificates shows at the leader which node has a listener with a certificate that
// expires soon, or has expired, until that is renewed.
func TestClusterWarnsOfCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	later, soon, over := newCertificatesUntil(t, now.Add(31*days)), newCertificatesUntil(t, now.Add(30*days-time.Hour)), newCertificatesUntil(t, now.Add(-time.Minute))
	all := newCluster(t, 2, "dynsec", func(*node) {}, func(n *node) {
		files := map[int]certificates{1: later, 2: soon}[n.at.NodeID]
		n.config.Listeners = append(n.config.Listeners, listen.Config{Protocol: "mqtts", Address: "127.0.0.1:0", CertFile: files.cert, KeyFile: files.key})
	})
	wants := func(warning string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the leader warns: %q", warning), func() bool { return all.leading(t).raftStatus().Warning == warning })
	}
	renew := func(n *node, from, to certificates) {
		t.Helper()
		for old, file := range map[string]string{from.cert: to.cert, from.key: to.key} {
			b, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(old, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		n.ReloadCertificates()
	}
	const text = "node %d: the certificate in cert.pem, of a listener, %s on %s: renew it"
	wants(fmt.Sprintf(text, 2, "expires", soon.pair.Leaf.NotAfter.UTC().Format(time.DateOnly)))
	renew(all[1], soon, later)
	wants("")
	renew(all[0], later, over)
	wants(fmt.Sprintf(text, 1, "has expired", over.pair.Leaf.NotAfter.UTC().Format(time.DateOnly)))
}
