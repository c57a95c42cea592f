package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/streams"
)

// In syncmode hp, streams that are each node's own take what those of other nodes publish. So a stream is refused that closes a
// loop with theirs. What cannot be refused, because the nodes form a cluster later, cannot be asked or
// change their streams at the same time, is searched for every flowInterval and shown as a warning.

// flowInterval is how often loops across nodes are searched for.
const flowInterval = 15 * time.Second

// streamAdapter is the adapter for streams, which also take what those of other nodes publish.
type streamAdapter struct {
	*adapter
	broker *Broker
}

var _ streams.PeerBroker = streamAdapter{}

// PeerFlows implements streams.PeerBroker.
func (a streamAdapter) PeerFlows(ctx context.Context) []streams.Flow {
	m := a.broker.cluster
	if m == nil || m.sharing() != sharesRetained {
		return nil
	}
	return m.peerFlows(ctx)
}

// peerFlows returns the flows of the other nodes' streams. Releases before this one do not answer.
func (m *member) peerFlows(ctx context.Context) (all []streams.Flow) {
	for _, r := range m.askPeers(ctx, askFlows) {
		var flows []streams.Flow
		err := r.err
		if err == nil {
			err = json.Unmarshal(r.body, &flows)
		}
		if err != nil {
			m.broker.log.Debug("the streams of another node are not known", "node", int(r.from), "error", err)
			continue
		}
		for _, f := range flows {
			f.Stream = fmt.Sprintf("%s of node %d", f.Stream, r.from)
			all = append(all, f)
		}
	}
	return all
}

// encodeFlows encodes the flows of this node's streams for another node.
func (b *Broker) encodeFlows() ([]byte, error) {
	own := b.features.ownStreams()
	if own == nil {
		return nil, errors.ErrUnsupported
	}
	return json.Marshal(own.Flows())
}

// watchFlows searches for loops across nodes until the context ends.
func (m *member) watchFlows(ctx context.Context) {
	if m.broker.config.Streams == nil {
		return
	}
	again := time.NewTicker(cmp.Or(m.broker.config.Times.Flows, flowInterval))
	defer again.Stop()
	for {
		select {
		case <-again.C:
			m.noteLoop(m.findLoop(ctx))
		case <-ctx.Done():
			return
		}
	}
}

// findLoop returns a loop through a stream of this node and those of others, "" for none.
func (m *member) findLoop(ctx context.Context) string {
	own := m.broker.features.ownStreams()
	if m.sharing() != sharesRetained || own == nil || len(own.Flows()) == 0 {
		return ""
	}
	return own.PeerLoop(m.peerFlows(ctx))
}

func (m *member) noteLoop(path string) {
	before := m.streamLoop.Swap(&path)
	if path != "" && (before == nil || *before != path) {
		m.broker.log.Warn("streams of several nodes form a loop, in which messages circulate: disable one of them", "loop", path)
	}
}

// loopWarning returns which streams form a loop across nodes, nil for none.
func (m *member) loopWarning() error {
	if path := m.streamLoop.Load(); path != nil && *path != "" {
		return fmt.Errorf("streams of several nodes form the loop %s, in which messages circulate: disable one of them", *path)
	}
	return nil
}
