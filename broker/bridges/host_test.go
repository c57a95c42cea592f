package bridges_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/messaging"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	must(t, bridges.DefaultConfig().Validate())
	err := bridges.Config{Durability: "maybe", MaxBytes: -1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "bridges.durability") || !strings.Contains(err.Error(), "bridges.max_bytes") {
		t.Errorf("got %v, want both keys named", err)
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	s := &bridgestest.Store{}
	h := bridges.NewHost(s, []bridges.Kind{&bridgestest.Kind{Name: "z-bridge"}, &bridgestest.Kind{}}, slog.New(slog.DiscardHandler))
	if diff := cmp.Diff([]string{fake, "z-bridge"}, h.Kinds()); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	one, two := h.Open("one", "1", &bridgestest.Broker{}), h.Open("two", "2", &bridgestest.Broker{})
	must(t, one.Ready(t.Context()), two.Ready(t.Context()))
	must(t, one.SetBridgeConfig(t.Context(), "z-bridge", json.RawMessage(doc(takes("c", "a"), takes("d", "a")))))
	n, err := one.Len(t.Context())
	if must(t, err); n != 2 {
		t.Errorf("there are %d connections, want 2", n)
	}
	var figures []string
	for f := range one.Figures() {
		figures = append(figures, f.Bridge+" "+f.ConnectionName)
	}
	if diff := cmp.Diff([]string{"z-bridge c", "z-bridge d"}, figures); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	list, err := one.ListBridges(t.Context())
	must(t, err)
	if diff := cmp.Diff([]broker.Bridge{{ID: fake}, {ID: "z-bridge", IsActive: true}}, list); diff != "" {
		t.Errorf("bridges (-want +got):\n%s", diff)
	}
	var open []string
	for id := range h.Engines() {
		open = append(open, id)
	}
	if !slices.Equal(open, []string{"one", "two"}) {
		t.Errorf("engines of %q are open", open)
	}
	must(t, one.Close(t.Context()), two.Close(t.Context()))
	for id := range h.Engines() {
		t.Errorf("the engine of %s is still there", id)
	}
	_, err = one.ListBridges(t.Context())
	wantKind(t, err, broker.Unavailable)
	must(t, h.Forget(t.Context(), "one"))
	again := h.Open("one", "1", &bridgestest.Broker{})
	if n, err := again.Len(t.Context()); n != 0 || err != nil {
		t.Errorf("%d connections are left, %v", n, err)
	}
	must(t, again.Close(t.Context()))
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	r, _ := start(t)
	ctx := t.Context()
	_, errConfig := r.GetBridgeConfig(ctx, "no-bridge")
	_, errStatus := r.GetBridgeStatus(ctx, "no-bridge")
	_, errSchema := r.GetBridgeSchema(ctx, "no-bridge")
	_, errTest := r.TestBridge(ctx, "no-bridge", nil)
	_, errList := r.ListDeadLetters(ctx, "no-bridge", "c", 0, -1)
	_, errRetry := r.RetryDeadLetters(ctx, fake, "c", nil)
	_, errDelete := r.DeleteDeadLetters(ctx, fake, "c", nil)
	for _, err := range []error{errConfig, errStatus, errSchema, errTest, errList, errRetry, errDelete, r.SetBridgeConfig(ctx, "no-bridge", json.RawMessage(doc()))} {
		wantKind(t, err, broker.NotFound)
	}
}

// TestEnginesInSequence checks that an engine waits for the one before it.
func TestEnginesInSequence(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, nil)
	r.Set(doc(takes("c", "a")))
	second := r.Host.Open("b", "here", r.Broker)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := second.Ready(ctx); err == nil {
		t.Error("a second engine works beside the first")
	}
	_, err := second.GetBridgeStatus(ctx, fake)
	wantKind(t, err, broker.Unavailable)
	r.Stop()
	must(t, second.Ready(t.Context()), second.Close(t.Context()))
}

// TestStoreFailsAtFirst checks that the engine reads its configurations once the store works.
func TestStoreFailsAtFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k, b := &bridgestest.Store{}, &bridgestest.Kind{}, &bridgestest.Broker{}
		must(t, s.PutConfig(t.Context(), "b", fake, json.RawMessage(doc(takes("c", "a"))), []string{"c"}))
		s.Fail(errors.New("the disk is gone"))
		h := bridges.NewHost(s, []bridges.Kind{k}, slog.New(slog.DiscardHandler))
		if h.Healthy(t.Context()) == nil {
			t.Error("it is healthy")
		}
		e := h.Open("b", "here", b)
		elapse(time.Second)
		s.Fail(nil)
		must(t, e.Ready(t.Context()))
		b.Text("a", "1")
		synctest.Wait()
		if got := k.Target("t").Payloads(); !slices.Equal(got, []string{"1"}) {
			t.Errorf("got %q", got)
		}
		s.Fail(errors.New("the disk is gone"))
		b.Text("a", "2")
		synctest.Wait()
		if _, settled := b.Outcomes(); len(settled) != 2 || settled[1] == nil {
			t.Errorf("settled are %v, want the second refused", settled)
		}
		s.Fail(nil)
		must(t, e.Close(t.Context()))
	})
}

// TestStoredByAnotherVersion checks that a stored configuration that this version refuses is
// shown with its problems, that its queue is kept, and that the others work.
func TestStoredByAnotherVersion(t *testing.T) {
	t.Parallel()
	s, k := &bridgestest.Store{}, &bridgestest.Kind{}
	text := doc(strings.Replace(takes("old", "a"), `"x"`, `"nowhere"`, 1), strings.Replace(takes("older", "a"), `"address"`, `"adress"`, 1), takes("c", "a"))
	must(t, s.PutConfig(t.Context(), "b", fake, json.RawMessage(text), []string{"old", "older", "c"}))
	must(t, s.PutConfig(t.Context(), "b", "gone-bridge", json.RawMessage(`{}`), nil))
	r := bridgestest.Start(t, k, s)
	publishTexts(r.Broker, "a", "1")
	arrives(t, k.Target("t"), 1)
	for name, want := range map[string]string{"old": "leads nowhere", "older": "address is missing"} {
		if got := r.Status(name).Error; !strings.Contains(got, want) {
			t.Errorf("the trouble of %s is %q, want it to tell of %q", name, got, want)
		}
	}
	if got := config(t, r); got != text {
		t.Errorf("the configuration is %s", got)
	}
	r.Set(doc(takes("old", "a"), takes("older", "a"), takes("c", "a")))
	publishTexts(r.Broker, "a", "2")
	arrives(t, k.Target("t"), 4)
}

func TestRefusedFilter(t *testing.T) {
	t.Parallel()
	r, _ := start(t)
	r.Broker.Refuse("b/#")
	r.Set(doc(takes("c", "a", "b/#")))
	r.Until("c", "the filter is named", func(s broker.BridgeStatus) bool { return strings.Contains(s.Error, "subscribe to b/#") })
}

func TestTrial(t *testing.T) {
	t.Parallel()
	s, k := &bridgestest.Store{}, &bridgestest.Kind{}
	r := bridgestest.Start(t, k, s)
	r.Set(doc(takes("c", "a")))
	r.Until("c", "it is connected", func(s broker.BridgeStatus) bool { return s.IsConnected })
	k.Target("away").SetUnavailable(errors.New("it is unavailable"))
	tests, err := r.TestBridge(t.Context(), fake, json.RawMessage(doc(takes("x", "a"), strings.Replace(takes("y", "a"), `"t"`, `"away"`, 1))))
	must(t, err)
	want := []broker.BridgeTest{{ConnectionName: "x", IsConnected: true}, {ConnectionName: "y", Error: "it is unavailable"}}
	if diff := cmp.Diff(want, tests); diff != "" {
		t.Errorf("the trials (-want +got):\n%s", diff)
	}
	if made, closed := k.Connectors(); made != 3 || closed != 2 || s.Puts() != 1 {
		t.Errorf("%d connectors were made, %d closed, %d documents stored", made, closed, s.Puts())
	}
	_, err = r.TestBridge(t.Context(), fake, json.RawMessage(doc(strings.Replace(takes("x", "a"), `"x"}`, `"nowhere"}`, 1))))
	wantKind(t, err, broker.Invalid)
	if tests, err := r.TestBridge(t.Context(), fake, nil); err != nil || len(tests) != 1 {
		t.Errorf("trying the stored configuration gave %+v, %v", tests, err)
	}
}

// resident counts its open instances.
type resident struct {
	*bridgestest.Kind
	mu   *sync.Mutex
	open *[]string
}

func (k resident) Open(_ messaging.Broker, identity string) (end func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*k.open = append(*k.open, identity)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		*k.open = nil
	}
}

func TestBrokerKind(t *testing.T) {
	t.Parallel()
	k := resident{&bridgestest.Kind{}, &sync.Mutex{}, new([]string)}
	r := bridgestest.Start(t, k, nil)
	opened := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(*k.open)
	}
	if opened() != 1 {
		t.Error("it was not opened")
	}
	r.Stop()
	if opened() != 0 {
		t.Error("it was not ended")
	}
}
