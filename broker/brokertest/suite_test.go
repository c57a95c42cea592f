package brokertest_test

import (
	"context"
	"log/slog"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/remote"
)

// lacking2011 is what Debian's Mosquitto, 2.0.11, lacks.
var lacking2011 = []brokertest.Feature{
	brokertest.PercentSubstitution,
	brokertest.AllowWildcardSubs,
	brokertest.Connections,
	brokertest.ClosedDollarTopics,
	brokertest.ModifyRoleCutsOff,
	brokertest.NonEmptyNames,
	brokertest.AnonymousGroupStays,
	brokertest.UTF8Names,
	brokertest.CheckedModification,
	brokertest.DeletableRoles,
	brokertest.ReplacedMembersCut,
	brokertest.CleanFailedCreation,
	brokertest.Transfer,
}

// dial connects to a broker over MQTT and waits until it is ready.
func dial(t *testing.T, target broker.Target) broker.Broker {
	t.Helper()
	b, err := remote.New(slog.New(slog.DiscardHandler)).Dial(target)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close the connection: %v", err)
		}
	})
	if err := b.Ready(t.Context()); err != nil {
		t.Fatalf("the broker does not become ready: %v", err)
	}
	return b
}

func TestRemoteToMosquitto(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, func(t *testing.T) brokertest.Subject {
		s := brokertest.Mosquitto(t, brokertest.AllowAnonymous())
		return brokertest.Subject{
			Broker: dial(t, s.Target()), URL: s.URL,
			AdminUsername: s.AdminUsername, AdminPassword: s.AdminPassword,
			Lacks: lacking2011,
		}
	})
}
