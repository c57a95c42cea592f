package streams_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging/messagingtest"
	"signalbox/broker/streams"
)

// startShared opens the streams of broker "b" at a node, whose definitions are those of a registry.
func startShared(t *testing.T, registry *messagingtest.Registry) *fixture {
	t.Helper()
	s := open(t, t.TempDir())
	t.Cleanup(func() { must(t, s.Close(context.Background())) })
	f := &fixture{tb: t, host: streams.NewHost(streams.DefaultConfig(), s, slog.New(slog.DiscardHandler)), store: s, broker: &fakeBroker{}}
	f.host.Registry = registry
	f.Engine = f.host.Open("b", f.broker)
	t.Cleanup(f.stop)
	must(t, f.Ready(t.Context()))
	return f
}

// wantStream waits until a node has a stream with that source.
func (r *fixture) wantStream(name, source string) {
	r.tb.Helper()
	await(r.tb, func() error {
		s, err := r.GetStream(context.Background(), name)
		if err == nil && s.SourceTopic != source {
			err = errors.New("the source is " + s.SourceTopic)
		}
		return err
	})
}

// wantNoStream waits until a node does not have a stream, nor anything stored of it.
func (r *fixture) wantNoStream(name string) {
	r.tb.Helper()
	await(r.tb, func() error {
		all, err := r.store.Definitions(context.Background(), "b")
		for _, d := range all {
			if d.StreamName == name {
				err = errors.New("it is stored")
			}
		}
		if _, found := r.GetStream(context.Background(), name); found == nil {
			err = errors.New("it is there")
		}
		return err
	})
}

// TestSharedDefinitions has two nodes follow each other's changes, also those that were made while one was away.
func TestSharedDefinitions(t *testing.T) {
	t.Parallel()
	ctx, registry := t.Context(), messagingtest.New()
	one, two := startShared(t, registry), startShared(t, registry)
	one.create(persist)
	two.wantStream("s", "in")
	must(t, two.ModifyStream(ctx, broker.StreamSpec{StreamName: "s", SourceTopic: new("other")}, false))
	one.wantStream("s", "other")
	must(t, one.ModifyStream(ctx, spec(from("third")), true)) // it has the revision of the change
	two.wantStream("s", "third")

	two.stop()
	must(t, one.DeleteStream(ctx, "s"))
	one.create(named("new"), from("new"))
	two.Engine = two.host.Open("b", two.broker)
	must(t, two.Ready(ctx))
	two.wantStream("new", "new")
	two.wantNoStream("s")
	must(t, two.DeleteStream(ctx, "new"))
	one.wantNoStream("new")
}

// TestSharedConflict refuses a change of a definition that was changed at another node, and changes nothing.
func TestSharedConflict(t *testing.T) {
	t.Parallel()
	ctx, registry := t.Context(), messagingtest.New()
	node := startShared(t, registry)
	node.create()
	failed := &broker.Error{Kind: broker.Unavailable, Msg: "there is no majority"}
	registry.Fail(failed)
	wantKind(t, node.ModifyStream(ctx, broker.StreamSpec{StreamName: "s", SourceTopic: new("other")}, false), broker.Unavailable)
	wantKind(t, node.CreateStream(ctx, spec(named("more"), from("more"))), broker.Unavailable)
	wantKind(t, node.DeleteStream(ctx, "s"), broker.Unavailable)
	registry.Fail(nil)
	node.wantStream("s", "in")
	node.wantNoStream("more")
}

// TestRefreshAwaitsNothing checks that a change is in force when Refresh returns.
func TestRefreshAwaitsNothing(t *testing.T) {
	t.Parallel()
	registry := messagingtest.New()
	node := startShared(t, registry)
	node.create()
	s, err := node.GetStream(t.Context(), "s")
	must(t, err)
	s.SourceTopic = "other"
	registry.Set("s", streams.Encode(streams.Definition{UID: node.definition("s").UID, Stream: s}))
	must(t, node.Refresh(t.Context()))
	if s, err = node.GetStream(t.Context(), "s"); err != nil || s.SourceTopic != "other" {
		t.Errorf("got %+v %v", s, err)
	}
}

// definition returns the definition of a stream as a node has stored it.
func (r *fixture) definition(name string) (d streams.Definition) {
	r.tb.Helper()
	all, err := r.store.Definitions(context.Background(), "b")
	must(r.tb, err)
	for _, one := range all {
		if one.StreamName == name {
			d = one
		}
	}
	return d
}

// TestSharedReplacement has another node delete a stream and create another one with its name. What a node has stored of the
// former one is deleted, whether the node was away or sees both at once. A change leaves it.
func TestSharedReplacement(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"away": true, "both at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := messagingtest.New()
			node := startShared(t, registry)
			node.create(persist)
			node.broker.deliverAll(1, numbers(0, 10)...)
			node.counts("stored", func(s broker.StreamStats) bool { return s.Messages == 10 })
			d := node.definition("s")
			d.SourceTopic = "other"
			registry.Set("s", streams.Encode(d))
			node.wantStream("s", "other")
			must(t, node.ModifyStream(t.Context(), spec(persist, from("third")), true))
			node.modify(from("fourth"))
			must(t, node.Refresh(t.Context()))
			if got := node.stored(); len(got) != 10 {
				t.Errorf("after changes it has the messages %v, want 10", got)
			}
			if away {
				node.stop()
			}
			d.UID++
			d.SourceTopic = "in"
			registry.Set("s", streams.Encode(d))
			if away {
				node.Engine = node.host.Open("b", node.broker)
				must(t, node.Ready(t.Context()))
			}
			node.wantStream("s", "in")
			if got := node.stored(); len(got) > 0 || node.definition("s").UID != d.UID {
				t.Errorf("another stream has the messages %v, and is %+v", got, node.definition("s"))
			}
			node.broker.deliverAll(1, numbers(0, 3)...)
			node.counts("stored", func(s broker.StreamStats) bool { return s.Messages == 3 })
			node.restart()
			if got := node.stored(); len(got) != 3 {
				t.Errorf("after a restart it has the messages %v, want 3", got)
			}
		})
	}
}
