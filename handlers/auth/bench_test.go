package auth_test

import (
	"fmt"
	"testing"

	"signalbox/db"
	"signalbox/handlers/auth"
)

// The cost of authenticating a request with a token, before its operation.
func BenchmarkAuthenticateToken(b *testing.B) {
	w := newWorld(b, auth.DefaultConfig())
	must(b, w.db.CreateBroker(b.Context(), db.Broker{ID: "b", ProjectID: "p", Type: "self-hosted"}))
	value := w.issue(b, db.Token{ID: "t", ProjectID: "p", Role: "viewer", Type: "restricted", Brokers: []string{"b"}, LastUsedAt: w.clock.now()})
	for i := range 1000 {
		w.issue(b, db.Token{ID: fmt.Sprint(i), ProjectID: "p", Role: "viewer", Type: "unrestricted"})
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := w.Authenticate(b.Context(), value)
		if err != nil {
			b.Fatal(err)
		}
		if role, err := w.RoleIn(b.Context(), p, "p"); role != auth.Viewer || err != nil {
			b.Fatal(role, err)
		}
	}
}
