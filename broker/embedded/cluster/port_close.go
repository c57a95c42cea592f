package cluster

import "time"

// closeUnwanted closes the connections of nodes that are no longer members.
func (p *port) closeUnwanted(unwanted func(uuid string, from *presented) bool) {
	p.mu.Lock()
	var out []*inboundConn
	for g := range p.conns {
		if g.uuid != "" && unwanted(g.uuid, g.from) {
			out = append(out, g)
		}
	}
	p.mu.Unlock()
	for _, g := range out {
		g.raw.Close() // its user closes it
	}
}

// finish closes the connections of a cluster in which this node no longer takes part. Requests
// that were begun are answered before: one may be the reason why this node leaves, for which the
// other node waits for an acknowledgement.
func (p *port) finish(uuid string) {
	p.mu.Lock()
	var ended []*inboundConn
	for g := range p.conns {
		switch {
		case g.uuid != uuid:
		case g.protocol == protocolRPC:
			g.raw.SetReadDeadline(time.Unix(1, 0)) // ends the reading of requests
		case g.isDetached():
			ended = append(ended, g)
		default:
			g.raw.Close() // its user closes it
		}
	}
	p.mu.Unlock()
	closeAll(ended)
}

// isDetached reports whether the user of a connection is not waited for: one of MQTT or HTTP may be handling the
// request because of which this node leaves.
func (g *inboundConn) isDetached() bool {
	return g.protocol == protocolMQTT || g.protocol == protocolHTTP
}

// closeAll closes connections whose users are not waited for.
func closeAll(ended []*inboundConn) {
	for _, g := range ended {
		g.Close()
	}
}

// close closes all connections, and waits for the requests that were begun, except those of MQTT and HTTP.
func (p *port) close() error {
	err := p.listener.Close()
	p.stop()
	p.mu.Lock()
	p.closed = true
	var ended []*inboundConn
	for g := range p.conns {
		if g.raw.Close(); g.isDetached() {
			ended = append(ended, g)
		}
	}
	p.mu.Unlock()
	closeAll(ended)
	p.wg.Wait()
	return err
}
