package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/mqtt/hosted"
	"signalbox/broker/streams"
)

// StoreID is the id under which the streams and bridges of this broker are stored.
const StoreID = "embedded"

// openFeaturesTimeout bounds the reading of the stored streams and bridges.
const openFeaturesTimeout = 10 * time.Second

// closeFeaturesTimeout bounds how long streams and bridges are waited for that are to be replaced.
const closeFeaturesTimeout = 5 * time.Second

// features are the streams and bridges of the broker: its own, on the engine in this process, or those of its
// cluster, of which one node at a time is a client (cluster_features.go).
type features struct {
	broker  *Broker
	current atomic.Pointer[featureSet] // nil for none
}

// featureSet are streams and bridges with the same messages.
type featureSet struct {
	id      string           // under which they are stored
	streams *streams.Engine  // nil for none
	bridges *bridges.Engine  // nil for none
	client  *hosted.Features // of the cluster; nil for the broker's own
	stop    func()           // stops the client and waits for it
}

// errFeaturesClosed is why there are neither streams nor bridges.
var errFeaturesClosed = errors.New("the streams and bridges of this broker are being opened or closed; try again")

// chooseStreams returns the present streams.
func (f *features) chooseStreams(_ context.Context, op string) (broker.Streams, error) {
	s := f.current.Load()
	switch {
	case f.broker.config.Streams == nil:
		return broker.NoStreams{}, nil
	case s == nil:
		return nil, &broker.Error{Kind: broker.Unavailable, Op: op, Msg: errFeaturesClosed.Error()}
	case s.client != nil:
		return s.client.Streams(), nil
	}
	return s.streams, nil
}

// chooseBridges returns the present bridges.
func (f *features) chooseBridges(_ context.Context, op string) (broker.Bridges, error) {
	s := f.current.Load()
	switch {
	case f.broker.config.Bridges == nil:
		return broker.NoBridges{}, nil
	case s == nil:
		return nil, &broker.Error{Kind: broker.Unavailable, Op: op, Msg: errFeaturesClosed.Error()}
	case s.client != nil:
		return s.client.Bridges(), nil
	}
	return s.bridges, nil
}

// ownStreams returns the streams on the engine in this process, nil for none.
func (f *features) ownStreams() *streams.Engine {
	if s := f.current.Load(); s != nil && s.client == nil {
		return s.streams
	}
	return nil
}

// isShared reports whether the streams and bridges are those of the cluster.
func (f *features) isShared() bool {
	s := f.current.Load()
	return s != nil && s.client != nil
}

// openFeatures opens the broker's own streams and bridges, before the first message is published, unless it is to have those of its cluster.
func (b *Broker) openFeatures(ctx context.Context, dataDir string) error {
	shared, err := b.startsShared(ctx, dataDir)
	if err != nil || shared {
		return err
	}
	b.features.openOwn()
	return b.features.await(ctx)
}

// startsShared reports whether the broker starts as a member of a cluster whose nodes have the same streams and bridges, or has
// been one until the last process ended.
func (b *Broker) startsShared(ctx context.Context, dataDir string) (bool, error) {
	if b.config.Definitions == nil || b.config.Cluster.Listen == "" {
		return false, nil
	}
	if b.config.Shared.Applied() == 0 || b.config.Definitions.Wait() {
		return false, nil // while it waits to be admitted it has its own
	}
	stored, err := ReadCluster(ctx, dataDir)
	if !stored.Shared || len(stored.Members) == 0 {
		return true, err // it has left the cluster, and does not have its own before its data are its own
	}
	_, messages := b.store.Shared()
	return messages, err
}

// openOwn opens the broker's own streams and bridges.
func (f *features) openOwn() {
	s := &featureSet{id: f.storeID()}
	if host := f.broker.config.Streams; host != nil {
		s.streams = host.Open(s.id, streamAdapter{f.broker.messaging(), f.broker})
	}
	if host := f.broker.config.Bridges; host != nil {
		s.bridges = host.Open(s.id, host.Identity(), f.broker.messaging())
	}
	f.current.Store(s)
}

// storeID returns the id under which the streams and bridges are stored.
func (f *features) storeID() string {
	if d := f.broker.config.Definitions; d != nil {
		return d.StoreID()
	}
	return StoreID
}

// await waits until the stored streams and bridges are read.
func (f *features) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openFeaturesTimeout)
	defer cancel()
	s := f.current.Load()
	if s.streams != nil {
		if err := s.streams.Ready(ctx); err != nil {
			return fmt.Errorf("read the broker's stored streams: %w; the log says what is wrong", err)
		}
	}
	if s.bridges != nil {
		if err := s.bridges.Ready(ctx); err != nil {
			return fmt.Errorf("read the broker's stored bridges: %w; the log says what is wrong", err)
		}
	}
	return nil
}

// close waits until what streams and bridges have accepted is stored and published: first of streams, as bridges may
// accept what these publish while they close.
func (f *features) close(ctx context.Context) (err error) {
	s := f.current.Swap(nil)
	switch {
	case s == nil:
		return nil
	case s.client != nil:
		err = s.client.Close(ctx)
		s.stop()
		return err
	}
	if s.streams != nil {
		err = s.streams.Close(ctx)
	}
	if s.bridges != nil {
		err = errors.Join(err, s.bridges.Close(ctx))
	}
	return err
}
