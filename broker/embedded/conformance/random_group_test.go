package conformance

import (
	"fmt"
	"time"

	"signalbox/scripts/suite"
)

// clientGroup is the clients of a run on one broker.
type clientGroup struct {
	clients [totalClients]*scriptedClient
	rounds  int
}

// newClientGroup connects the clients that stay throughout.
func newClientGroup(addr, mark string) *clientGroup {
	g := &clientGroup{}
	for i := range g.clients {
		g.clients[i] = &scriptedClient{name: fmt.Sprintf("%sn%d", mark, i), addr: addr, prefix: mark + "/", sent: map[uint16]byte{}}
	}
	for i := transients; i < totalClients; i++ {
		g.clients[i].enter(step{version: v5, clean: true})
		g.clients[i].settle()
	}
	g.clients[watcher].subscribe(step{filters: []scriptedFilter{{filter: "will/#"}}})
	g.settle(watcher)
	return g
}

// close closes all connections.
func (g *clientGroup) close() {
	for _, p := range g.clients {
		p.gone()
	}
}

// outcome is the result of a step for all clients.
type outcome [totalClients]struct {
	heard   []delivery
	answers []string
}

// do performs a step and waits until the broker has processed it.
func (g *clientGroup) do(s step) (o outcome) {
	for _, p := range g.clients {
		p.heard, p.answers = nil, nil
	}
	if g.act(s) {
		g.settle(s.client)
	} else {
		g.clients[s.client].answers = []string{"passed over"}
	}
	for i, p := range g.clients {
		o[i].heard, o[i].answers = p.heard, p.answers
	}
	return o
}

// possible reports whether a step is possible now. The end of a connection is detected by
// its Will. At a take-over there must not be one: Mosquitto 2.0.11 deviates from the
// standard in whether it is published then.
func (p *scriptedClient) possible(s step) bool {
	switch s.kind {
	case stepConnect:
		return !p.connected() || !p.willed
	case stepVanish, stepLeaveWill:
		return p.connected() && p.willed
	}
	return p.connected()
}

// act performs a step if it is possible.
func (g *clientGroup) act(s step) bool {
	p := g.clients[s.client]
	if !p.possible(s) {
		return false
	}
	switch s.kind {
	case stepConnect:
		p.enter(s)
	case stepSubscribe:
		p.subscribe(s)
	case stepUnsubscribe:
		p.unsubscribe(s)
	case stepPublish:
		p.publish(s)
	case stepLeave:
		p.leave(success)
		if !p.kept {
			g.awaitEnd(p)
		}
	case stepLeaveWill:
		g.leaveWill(p, s.client)
	case stepVanish:
		p.gone()
		g.awaitWill(s.client)
	case stepMute, stepHalf:
		p.mute = s.kind
	}
	return true
}

func (g *clientGroup) leaveWill(p *scriptedClient, client int) {
	if p.version == v5 {
		p.leave(disconnectWithWill)
	} else {
		p.gone()
	}
	g.awaitWill(client)
}

// awaitWill waits until the client's Will is published, which shows that the broker has
// detected the end of the connection.
func (g *clientGroup) awaitWill(client int) {
	w := g.clients[watcher]
	for w.connected() {
		got, err := w.read()
		if err != nil {
			w.breach("waiting for the Will of client %d: %v", client, err)
			w.gone()
			return
		}
		w.take(got)
		if got.topic == fmt.Sprintf("%swill/%d", w.prefix, client) {
			return
		}
	}
}

// awaitEnd waits until the session of a client that has left is deleted, which may be a
// moment later than its connection: until its cue has no subscriber.
func (g *clientGroup) awaitEnd(p *scriptedClient) {
	w := g.clients[watcher]
	for began := time.Now(); w.connected(); {
		w.ids++
		w.write(publish{topic: p.cue(), payload: "still there?", qos: 1, id: w.ids}.bytes(w.version))
		got, err := w.read()
		for ; err == nil && (got.kind() != typePuback || got.id != w.ids); got, err = w.read() {
			w.take(got)
		}
		switch {
		case err != nil || time.Since(began) > suite.HangLimit:
			w.breach("waiting for the end of the session of %s: got %v, %v", p.name, got, err)
			w.gone()
		case got.reason() == noMatchingSubscribers:
			return
		}
	}
}

// settle waits until the broker has processed the step. First the client of the step
// receives its responses. Then each of the others receives a message that was published
// after all that happened, so everything else must have arrived [MQTT-4.6.0-5]; muted
// clients cannot, and what they receive is compared later anyway.
func (g *clientGroup) settle(first int) {
	g.clients[first].settle()
	g.rounds++
	prompt := fmt.Sprint("round ", g.rounds)
	w := g.clients[watcher]
	for _, p := range g.clients {
		if p.attentive() {
			w.write(publish{topic: p.cue(), payload: prompt, qos: 1, id: w.expectAnswer(typePuback)}.bytes(w.version))
		}
	}
	w.settle()
	for _, p := range g.clients {
		if p.attentive() {
			p.await(prompt)
		}
		p.settle()
	}
}

// breaches returns the rules that the broker has violated.
func (g *clientGroup) breaches() (all []string) {
	for _, p := range g.clients {
		all = append(all, p.breaches...)
	}
	return all
}
