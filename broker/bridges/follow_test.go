package bridges_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/messaging/messagingtest"
)

// sharedNode is a node whose configurations are those of a registry.
type sharedNode struct {
	*bridges.Engine
	host   *bridges.Host
	store  *bridgestest.Store
	kind   *bridgestest.Kind
	broker *bridgestest.Broker
}

func startShared(t *testing.T, registry *messagingtest.Registry) *sharedNode {
	t.Helper()
	n := &sharedNode{store: &bridgestest.Store{}, kind: &bridgestest.Kind{}, broker: &bridgestest.Broker{}}
	n.host = bridges.NewHost(n.store, []bridges.Kind{n.kind}, slog.New(slog.DiscardHandler))
	n.host.Registry = registry
	n.open(t)
	return n
}

func (n *sharedNode) open(t *testing.T) {
	t.Helper()
	n.Engine = n.host.Open("b", "here", n.broker)
	must(t, n.Ready(t.Context()))
	synctest.Wait()
}

// connections returns the names of the connections.
func (n *sharedNode) connections(t *testing.T) (names []string) {
	t.Helper()
	list, err := n.GetBridgeStatus(t.Context(), fake)
	must(t, err)
	for _, s := range list {
		names = append(names, s.ConnectionName)
	}
	return names
}

// TestSharedConfigurations has two nodes follow each other's changes, also those that were made while one was away, and one
// without a registry's consent change nothing.
func TestSharedConfigurations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, registry := t.Context(), messagingtest.New()
		one, two := startShared(t, registry), startShared(t, registry)
		must(t, one.SetBridgeConfig(ctx, fake, json.RawMessage(doc(takes("c", "a")))))
		synctest.Wait()
		two.broker.Text("a", "1")
		synctest.Wait()
		if got := two.kind.Target("t").Payloads(); !slices.Equal(got, []string{"1"}) {
			t.Errorf("the other node delivers %q", got)
		}
		must(t, two.SetBridgeConfig(ctx, fake, json.RawMessage(doc(takes("c", "a"), takes("d", "b")))))
		synctest.Wait()
		if got := one.connections(t); !slices.Equal(got, []string{"c", "d"}) {
			t.Errorf("one has the connections %q", got)
		}

		must(t, two.Close(ctx), one.SetBridgeConfig(ctx, fake, json.RawMessage(doc(takes("d", "b")))))
		two.open(t)
		if got := two.connections(t); !slices.Equal(got, []string{"d"}) {
			t.Errorf("the one that was away has the connections %q", got)
		}
		if _, err := two.store.Queue(ctx, "b", fake, "c", bridges.Bounds{}); err == nil {
			t.Error("it still has the queue of a connection that was deleted")
		}

		registry.Fail(&broker.Error{Kind: broker.Unavailable, Msg: "there is no majority", Err: errors.New("lost")})
		wantKind(t, one.SetBridgeConfig(ctx, fake, json.RawMessage(doc())), broker.Unavailable)
		registry.Fail(nil)
		one.broker.Text("b", "2")
		synctest.Wait()
		if got := one.kind.Target("t").Payloads(); !slices.Equal(got, []string{"2"}) {
			t.Errorf("after a change that was refused it delivers %q", got)
		}
		must(t, one.Close(ctx), two.Close(ctx))
	})
}

// TestUnreadableConfiguration has a node that follows a configuration be able to read it only later, as one that has not received its
// key yet, or start meanwhile.
func TestUnreadableConfiguration(t *testing.T) {
	t.Parallel()
	for _, starts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, registry := t.Context(), messagingtest.New()
			n := startShared(t, registry)
			if starts {
				must(t, n.Close(ctx))
			}
			registry.Seal(true)
			registry.Set(fake, []byte(doc(takes("c", "a"))))
			if starts {
				n.open(t)
			}
			synctest.Wait()
			if got := n.connections(t); len(got) != 0 {
				t.Errorf("connections that cannot be read: %q", got)
			}
			registry.Seal(false)
			synctest.Wait()
			if got := n.connections(t); !slices.Equal(got, []string{"c"}) {
				t.Errorf("connections %q", got)
			}
			must(t, n.Close(ctx))
		})
	}
}
