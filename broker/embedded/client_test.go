package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

const (
	adminName     = "admin"
	adminPassword = "admin-password"
)

// testConfig returns a closed configuration on any free port with cheap passwords, without
// limits or timeouts that a slow machine could reach.
func testConfig() Config {
	c := DefaultConfig()
	c.Listen = "127.0.0.1:0"
	c.AdminPassword = adminPassword
	c.PasswordIterations = minPasswordIterations
	c.Times = Times{Close: suite.HangLimit, Sample: time.Hour, Routes: suite.HangLimit}
	c.Cluster.DrainTimeout = suite.HangLimit
	return c
}

// start runs a broker on an empty directory until the test ends.
func start(t *testing.T, change ...func(*Config)) *Broker {
	t.Helper()
	c := testConfig()
	for _, f := range change {
		f(&c)
	}
	b, err := New(t.Context(), c, t.TempDir(), slog.New(slog.NewTextHandler(testLog{t}, nil)))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := b.Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return b
}

// testLog shows what the broker logs with the test's own output.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	fmt.Fprintf(l.t.Output(), "%s", p)
	return len(p), nil
}

// allow creates a username with ACLs and the password "pw".
func allow(t *testing.T, b *Broker, username string, acls ...broker.ACL) {
	t.Helper()
	role := "role of " + username
	if err := b.CreateRole(t.Context(), broker.RoleSpec{RoleName: role, ACLs: acls}); err != nil {
		t.Fatal(err)
	}
	password := broker.Secret("pw")
	if err := b.CreateClient(t.Context(), broker.ClientSpec{
		Username: username, Password: &password,
		Roles: []broker.RoleRef{{RoleName: role, Priority: broker.NoPriority}},
	}); err != nil {
		t.Fatal(err)
	}
}

func acl(t broker.ACLType, topic string, allow bool) broker.ACL {
	return broker.ACL{ACLType: t, Topic: topic, Allow: allow}
}

// everything returns all rights on every topic outside $.
func everything() []broker.ACL {
	return []broker.ACL{
		acl(broker.PublishClientSend, "#", true), acl(broker.PublishClientReceive, "#", true),
		acl(broker.SubscribePattern, "#", true), acl(broker.UnsubscribePattern, "#", true),
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	suite.WaitFor(t, what, holds)
}

// wantForgotten waits until the broker has finished with the client's connection, whether
// or not its session is kept.
func (d *device) wantForgotten(b *Broker) {
	d.T.Helper()
	eventually(d.T, "the connection is forgotten", func() bool {
		i, _, err := b.engine.Client(d.ID)
		return err != nil || !i.Connected
	})
}

// connections returns the number of open connections.
func connections(b *Broker) int { return b.limits.Usage().Open }
