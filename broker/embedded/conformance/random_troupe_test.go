package conformance

import (
	"fmt"
	"time"

	"signalbox/scripts/suite"
)

// troupe is the cast of a run on one broker.
type troupe struct {
	players [cast]*player
	rounds  int
}

// assemble connects those who stay throughout.
func assemble(addr, mark string) *troupe {
	t := &troupe{}
	for i := range t.players {
		t.players[i] = &player{name: fmt.Sprintf("%sn%d", mark, i), addr: addr, prefix: mark + "/", sent: map[uint16]byte{}}
	}
	for i := comers; i < cast; i++ {
		t.players[i].enter(step{version: v5, clean: true})
		t.players[i].settle()
	}
	t.players[watcher].subscribe(step{filters: []scriptedFilter{{filter: "will/#"}}})
	t.settle(watcher)
	return t
}

// disband closes all connections.
func (t *troupe) disband() {
	for _, p := range t.players {
		p.gone()
	}
}

// outcome is what a step brought to everybody.
type outcome [cast]struct {
	heard   []delivery
	answers []string
}

// do performs a step and waits until nothing moves any more.
func (t *troupe) do(s step) (o outcome) {
	for _, p := range t.players {
		p.heard, p.answers = nil, nil
	}
	if t.act(s) {
		t.settle(s.client)
	} else {
		t.players[s.client].answers = []string{"passed over"}
	}
	for i, p := range t.players {
		o[i].heard, o[i].answers = p.heard, p.answers
	}
	return o
}

// possible tells whether a step makes sense now. The end of a connection is
// awaited by its Will. At a take-over there must not be one: whether it is
// published then is where Mosquitto 2.0.11 deviates from the standard.
func (p *player) possible(s step) bool {
	switch s.kind {
	case stepConnect:
		return !p.connected() || !p.willed
	case stepVanish, stepLeaveWill:
		return p.connected() && p.willed
	}
	return p.connected()
}

// act performs a step if it is possible.
func (t *troupe) act(s step) bool {
	p := t.players[s.client]
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
			t.awaitEnd(p)
		}
	case stepLeaveWill:
		t.leaveWill(p, s.client)
	case stepVanish:
		p.gone()
		t.awaitWill(s.client)
	case stepHush, stepHalf:
		p.mute = s.kind
	}
	return true
}

func (t *troupe) leaveWill(p *player, client int) {
	if p.version == v5 {
		p.leave(disconnectWithWill)
	} else {
		p.gone()
	}
	t.awaitWill(client)
}

// awaitWill waits until the client's Will is published, by which the broker
// shows that it has noticed the end of the connection.
func (t *troupe) awaitWill(client int) {
	w := t.players[watcher]
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

// awaitEnd waits until the session of a client that has left is gone, which may be a
// moment later than its connection: until there is no subscriber to its cue.
func (t *troupe) awaitEnd(p *player) {
	w := t.players[watcher]
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

// settle makes sure that the broker has done what it was asked. First who asked
// gets its answers. Then each of the others gets a message that was published
// after all that happened, and by which everything else must have come
// [MQTT-4.6.0-5]; those who do not acknowledge cannot, and what they hear counts
// later anyway.
func (t *troupe) settle(first int) {
	t.players[first].settle()
	t.rounds++
	prompt := fmt.Sprint("round ", t.rounds)
	w := t.players[watcher]
	for _, p := range t.players {
		if p.attentive() {
			w.write(publish{topic: p.cue(), payload: prompt, qos: 1, id: w.expectAnswer(typePuback)}.bytes(w.version))
		}
	}
	w.settle()
	for _, p := range t.players {
		if p.attentive() {
			p.await(prompt)
		}
		p.settle()
	}
}

// breaches are the rules that the broker has broken by itself.
func (t *troupe) breaches() (all []string) {
	for _, p := range t.players {
		all = append(all, p.breaches...)
	}
	return all
}
