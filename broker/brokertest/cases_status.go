package brokertest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

func statusCases() []testCase {
	return []testCase{
		{name: "a broker that is ready is connected and offers dynamic security", run: ready},
		{name: "a broker offers what it does not lack", run: offered},
		{name: "what a broker does not offer is unsupported, and says which feature", run: unsupported},
		{name: "the $SYS tree has the broker's version", run: sysTree},
		{name: "a closed broker is unavailable", run: closed},
	}
}

func ready(t *testing.T, s *fixture) {
	must(t, s.Broker.Ready(t.Context()))
	status := s.Broker.Status()
	if !status.Connected || status.Error != "" || status.Since.IsZero() {
		t.Errorf("status: got %+v, want connected, since some time, without an error", status)
	}
	if !slices.Contains(s.Broker.Capabilities(), broker.CapDynamicSecurity) {
		t.Errorf("capabilities: got %q, want dynamic security among them", s.Broker.Capabilities())
	}
}

// offered compares the capabilities with what the suite expects.
func offered(t *testing.T, s *fixture) {
	has := s.Broker.Capabilities()
	for feature, capabilities := range map[Feature][]broker.Capability{
		Inspection: {broker.CapInspect}, ClientControl: {broker.CapClientControl},
		OperatorsLists: {broker.CapSubscriptions, broker.CapDenials, broker.CapBans},
	} {
		for _, c := range capabilities {
			if lacks := slices.Contains(s.Lacks, feature); lacks == slices.Contains(has, c) {
				t.Errorf("lacks %s: %t, but capabilities are %q", feature, lacks, has)
			}
		}
	}
	for _, c := range []broker.Capability{broker.CapStreams, broker.CapMessages, broker.CapAccessCheck} {
		if !slices.Contains(has, c) {
			t.Errorf("%s is missing in %q", c, has)
		}
	}
}

// unsupported calls only what the broker lacks.
func unsupported(t *testing.T, s *fixture) {
	calls := map[broker.Capability]func() error{
		broker.CapStreams: func() error {
			_, err := s.Broker.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{Count: -1})
			return err
		},
		broker.CapTTL:     func() error { _, err := s.Broker.GetTTL(t.Context(), 0); return err },
		broker.CapLicense: func() error { _, err := s.Broker.GetLicense(t.Context()); return err },
		broker.CapInspect: func() error { _, err := s.Broker.InspectClient(t.Context(), "x"); return err },
		broker.CapClientControl: func() error {
			return firstOther(s.Broker.DisconnectClient(t.Context(), "x"), s.Broker.UnsubscribeClient(t.Context(), "x", "a"),
				s.Broker.SubscribeClient(t.Context(), "x", broker.SubscriptionSpec{Topic: "a"}))
		},
		broker.CapSubscriptions: func() error {
			_, err := s.Broker.ListSubscriptions(t.Context(), broker.SubscriptionOptions{})
			return err
		},
		broker.CapDenials: func() error { _, err := s.Broker.ListDenials(t.Context(), 0, -1); return err },
		broker.CapBans: func() error {
			_, err := s.Broker.ListBans(t.Context(), 0, -1)
			return firstOther(err, s.Broker.DeleteBan(t.Context(), broker.BanClientID, "x"),
				s.Broker.AddBan(t.Context(), broker.BanSpec{Kind: broker.BanClientID, Value: "x"}))
		},
	}
	if slices.Contains(s.Lacks, Transfer) {
		_, err := s.Broker.ExportAccess(t.Context())
		wantKind(t, err, broker.Unsupported)
		_, err = s.Broker.ImportAccess(t.Context(), strings.NewReader("{}"), false)
		wantKind(t, err, broker.Unsupported)
	}
	has := s.Broker.Capabilities()
	for capability, call := range calls {
		if slices.Contains(has, capability) {
			continue
		}
		err := call()
		wantKind(t, err, broker.Unsupported)
		if e, ok := errors.AsType[*broker.Error](err); !ok || e.Feature != capability {
			t.Errorf("%v does not name the feature %s", err, capability)
		}
	}
}

// firstOther returns the first error other than Unsupported, if there is one.
func firstOther(errs ...error) error {
	for _, err := range errs {
		if broker.KindOf(err) != broker.Unsupported {
			return err
		}
	}
	return errs[0]
}

func sysTree(t *testing.T, s *fixture) {
	WaitFor(t, "the $SYS tree is there", func() bool {
		now, _, err := s.Broker.SysTopics(t.Context())
		must(t, err)
		return now.Topics["$SYS/broker/version"] != "" && now.Date > 0
	})
}

func closed(t *testing.T, s *fixture) {
	must(t, s.Broker.Close(t.Context()))
	must(t, s.Broker.Close(t.Context()))
	wantKind(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: "too late"}), broker.Unavailable)
	_, err := s.Broker.GetStream(t.Context(), "too late")
	wantKind(t, err, broker.Unavailable)
	if status := s.Broker.Status(); status.Connected {
		t.Error("a closed broker says that it is connected")
	}
}
