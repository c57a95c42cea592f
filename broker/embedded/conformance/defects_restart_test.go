package conformance

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded"
)

// restartable is a broker that restarts on a copy of its files. Only ours is persistent by
// default.
type restartable struct {
	*scene
	dir    string
	config embedded.Config
	crash  bool // restarts as if the process had been killed
}

// restarts runs a test against our broker, which the test restarts: once after Close, and
// once from a copy of its files, without anything that the process has in memory.
func restarts(t *testing.T, versions []byte, test func(h *restartable)) {
	t.Helper()
	t.Parallel()
	if !slices.Contains(kinds(t), kindEmbedded) {
		t.Log("this is about our broker only")
		return
	}
	for _, crash := range []bool{false, true} {
		for _, version := range versions {
			name := fmt.Sprintf("%s/v%d", map[bool]string{false: "closed", true: "killed"}[crash], version)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, version)
				h.crash = crash
				test(h)
			})
		}
	}
}

func newHouse(t *testing.T, version byte) *restartable {
	t.Helper()
	c := patient()
	c.AdminUsername, c.AdminPassword = adminName, adminPassword
	c.AllowAnonymous = true
	c.PasswordIterations = 100 // a test's passwords are no secrets
	h := &restartable{dir: t.TempDir(), config: c}
	h.scene = &scene{T: t, version: version, mark: fmt.Sprintf("s%d", scenes.Add(1)), subject: &subject{kind: kindEmbedded}}
	h.open()
	open(t, h.subject.embedded)
	return h
}

func (h *restartable) open() {
	h.Helper()
	b := openEmbedded(h.T, h.config, h.dir)
	h.subject.embedded, h.subject.tcp = b, b.Addrs()[0]
}

// restart starts the broker again. For a killed one, all connections are abandoned; its
// successor finds what it has written so far.
func (h *restartable) restart() {
	h.Helper()
	if h.crash {
		was := h.dir
		brokertest.WaitFor(h, "its files could be copied as they stand", func() bool {
			h.dir = h.TempDir()
			whole, err := copyDir(h.dir, was)
			if err != nil {
				h.Fatalf("copy the broker's files: %v", err)
			}
			return whole
		})
	} else if err := closeEmbedded(h.subject.embedded); err != nil {
		h.Fatalf("close the broker: %v", err)
	}
	h.open()
}

// settled waits until everything before it is durable, by a subscription, which is durable
// when its SUBACK arrives: changes are stored in order.
func (h *restartable) settled() {
	h.Helper()
	h.dials++
	c := h.join(persistent(fmt.Sprint("settled", h.dials), h.scene))
	c.subscribe(1, h.mark+"-settled")
	c.leave()
}

// copyDir copies the regular files of a directory as they are now. It reports whether that
// is a consistent state: the database has not changed since it was copied, as it does when
// its log, which is copied after it, is checkpointed.
func copyDir(to, from string) (whole bool, err error) {
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, filepath.Base(path)), content, 0o600)
	})
	if err != nil {
		return false, err
	}
	copied, err := os.ReadFile(filepath.Join(to, embedded.DatabaseFile))
	if err != nil {
		return false, err
	}
	now, err := os.ReadFile(filepath.Join(from, embedded.DatabaseFile))
	return bytes.Equal(copied, now), err
}

// TestRestartKeepsWhatWasAcknowledged: an acknowledged message exists after the end of the
// process [MQTT-4.3.2-4, MQTT-4.5.0-1], in its order, with all its properties.
func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	const many = 30
	restarts(t, everyVersion, func(h *restartable) {
		c, publisher := h.join(persistent("away", h.scene)), h.join(connect{})
		c.subscribeWithID(7, 2, h.topic("q"))
		c.leave()
		message := func(i int) publish {
			p := publish{topic: h.topic("q"), qos: 1 + byte(i%2), payload: fmt.Sprint(i)}
			if h.five() {
				p.props = passedOn["all"]
			}
			return p
		}
		for i := range many {
			publisher.publish(message(i))
		}
		for range 2 {
			h.restart()
		}
		c = h.resume(persistent("away", h.scene))
		c.receiveAll(many, true, func(i int) publish { // whether it was sent before is not stored
			p := message(i)
			if h.five() {
				p.props = cat(p.props, propVarint(subscriptionIdentifier, 7))
			}
			return p
		})
		c.expectPong()
		h.join(connect{}).publish(message(many))
		if got := c.next(); got.payload != fmt.Sprint(many) {
			h.Errorf("got %v, want a new message by the old subscription", got)
		}
	})
}

// TestRestartKeepsWhatIsUnderWay: unacknowledged deliveries are sent again with DUP and
// their identifiers, PUBREL likewise, acknowledged ones are not [MQTT-4.4.0-1]; a QoS 2
// message that was received and not released is known [MQTT-4.3.3-10].
func TestRestartKeepsWhatIsUnderWay(t *testing.T) {
	restarts(t, everyVersion, func(h *restartable) {
		c, publisher := h.join(persistent("busy", h.scene)), h.join(connect{})
		c.subscribe(2, h.topic("q"))
		var sent []publish
		for i := range 6 {
			p := publish{topic: h.topic("q"), qos: 1 + byte(i%2), payload: fmt.Sprint(i)}
			publisher.publish(p)
			p.id = c.expectPublish(p)
			sent = append(sent, p)
		}
		c.acknowledge(1, sent[2].id)
		c.acknowledge(2, sent[3].id)
		c.send(ack(h.version, typePubrec, sent[5].id, success))
		c.expect(ack(h.version, typePubrel, sent[5].id, success))
		incoming := publish{topic: h.topic("up"), qos: 2, id: 33, payload: "once"}
		c.send(incoming.bytes(h.version))
		c.expectAck(typePubrec, 33)
		c.leave()
		h.settled()
		h.restart()
		c = h.resume(persistent("busy", h.scene))
		for _, i := range []int{0, 1, 4} {
			p := sent[i]
			p.dup = true
			if id := c.expectPublish(p); id != p.id {
				h.Errorf("message %d is sent again as %d, was %d", i, id, p.id)
			}
		}
		c.expect(ack(h.version, typePubrel, sent[5].id, success))
		watcher := h.join(connect{})
		watcher.subscribe(2, h.topic("up"))
		incoming.dup = true
		c.send(incoming.bytes(h.version))
		c.expectAck(typePubrec, 33)
		c.send(ack(h.version, typePubrel, 33, success))
		c.expectAck(typePubcomp, 33)
		watcher.expectNothing(c)
	})
}

// TestRestartAfterReconnectCutShort: what is sent again to a client that disconnects
// half-way stays durable throughout.
func TestRestartAfterReconnectCutShort(t *testing.T) {
	const many = 100
	restarts(t, []byte{v311, v5}, func(h *restartable) {
		c, publisher := h.join(persistent("short", h.scene)), h.join(connect{})
		c.subscribe(1, h.topic("q"))
		c.leave()
		for i := range many {
			publisher.publish(publish{topic: h.topic("q"), qos: 1, payload: fmt.Sprint(i)})
		}
		c = h.resume(persistent("short", h.scene))
		for range 10 {
			c.next()
		}
		c.send(disconnect(h.version, success, nil))
		c.expectGone()
		h.settled()
		h.restart()
		c = h.resume(persistent("short", h.scene))
		for i := range many {
			got := c.next()
			if got.payload != fmt.Sprint(i) {
				h.Fatalf("got %v, want message %d", got, i)
			}
			c.acknowledgeFirst(got)
		}
		c.expectPong()
	})
}

// TestRestartDoesNotResurrect: what was delivered, unsubscribed, cleared or ended before
// stays so.
func TestRestartDoesNotResurrect(t *testing.T) {
	restarts(t, everyVersion, func(h *restartable) {
		c, publisher := h.join(persistent("done", h.scene)), h.join(connect{})
		c.subscribe(2, h.topic("#"))
		c.subscribe(1, h.topic("a"))
		c.unsubscribe(h.topic("a"), success)
		for qos := byte(1); qos <= 2; qos++ {
			for _, payload := range []string{"set", ""} {
				p := publish{topic: h.topic("kept"), qos: qos, retain: true, payload: payload}
				publisher.publish(p)
				p.retain = false
				c.receive(p)
			}
		}
		c.unsubscribe(h.topic("#"), success)
		c.leave()
		ended := h.join(persistent("ended", h.scene))
		ended.subscribe(1, h.topic("b"))
		ended.leave()
		h.join(connect{clientID: h.id("ended")}).leave()
		h.settled()
		h.restart()
		c = h.resume(persistent("done", h.scene))
		c.expectPong()
		ended = h.begin(persistent("ended", h.scene))
		publisher = h.join(connect{})
		for _, topic := range []string{"a", "b"} {
			publisher.publish(publish{topic: h.topic(topic), qos: 1})
		}
		c.expectPong()
		ended.expectPong()
		h.wantNoneKept(h.topic("#"))
	})
}

// TestRestartKeepsRetained messages with their QoS, properties and expiry.
func TestRestartKeepsRetained(t *testing.T) {
	restarts(t, everyVersion, func(h *restartable) {
		publisher := h.join(connect{})
		for qos := range byte(3) {
			p := publish{topic: h.topic(fmt.Sprint("kept/", qos)), qos: qos, retain: true, payload: "old"}
			publisher.publish(p)
			p.payload = "new"
			if h.five() {
				p.props = passedOn["all"]
			}
			publisher.publish(p)
		}
		if h.five() {
			publisher.publish(publish{topic: h.topic("short"), qos: 1, retain: true, payload: "x", props: propU32(messageExpiry, 1)})
		}
		publisher.expectPong()
		h.settled()
		h.restart()
		for qos := range byte(3) {
			p := publish{topic: h.topic(fmt.Sprint("kept/", qos)), qos: qos, retain: true, payload: "new"}
			if h.five() {
				p.props = passedOn["all"]
			}
			h.wantKept(p.topic, 2, p)
		}
		if h.five() {
			h.untilRetained(h.topic("short"), "the message has expired", func(_ packet, ok bool) bool { return !ok })
		}
	})
}

// TestRestartKeepsWills: a Will that waits for its delay is published after the restart,
// and so is that of a client that was connected when the process was killed [MQTT-3.1.2-8].
func TestRestartKeepsWills(t *testing.T) {
	restarts(t, onlyFive, func(h *restartable) {
		as := persistent("waits", h.scene)
		as.will = &will{topic: h.topic("will/waits"), payload: "late", qos: 1, retain: true, props: propU32(willDelay, 1)}
		h.join(as).drop()
		connected := persistent("connected", h.scene)
		connected.will = &will{topic: h.topic("will/connected"), payload: "gone", qos: 1, retain: true}
		c := h.join(connected)
		c.subscribe(1, h.topic("x")) // its session is durable by now
		h.restart()
		for topic, payload := range map[string]string{"will/waits": "late", "will/connected": "gone"} {
			h.untilRetained(h.topic(topic), "the Will on "+topic+" is published", func(got packet, ok bool) bool {
				return ok && got.payload == payload
			})
		}
	})
}

// TestRestartKeepsWillsOfCleanSessions: a clean session ends with the process, and its Will
// is published [MQTT-3.1.2-8] unless it was discarded; a delay ends with the session
// [MQTT-3.1.3-9].
func TestRestartKeepsWillsOfCleanSessions(t *testing.T) {
	restarts(t, []byte{v311, v5}, func(h *restartable) {
		lost := connect{clientID: h.id("lost"), will: &will{topic: h.topic("will/lost"), payload: "gone", qos: 1, retain: true}}
		if h.five() {
			lost.will.props = propU32(willDelay, 3600)
		}
		h.join(lost)
		left := connect{clientID: h.id("left"), will: &will{topic: h.topic("will/left"), payload: "never", qos: 1, retain: true}}
		h.join(left).leave()
		left.will = nil
		h.join(left).leave() // the change of the first one is submitted by now
		h.settled()
		h.restart()
		lost.will, lost.keep = nil, true
		h.begin(lost)
		h.untilRetained(h.topic("will/lost"), "the Will is published", func(got packet, ok bool) bool {
			return ok && got.payload == "gone"
		})
		h.untilRetained(h.topic("will/left"), "no Will of a client that left is published", func(_ packet, ok bool) bool { return !ok })
	})
}

// TestRestartExpires: time goes on while no process runs.
func TestRestartExpires(t *testing.T) {
	restarts(t, onlyFive, func(h *restartable) {
		brief := connect{clientID: h.id("brief"), keep: true, props: propU32(sessionExpiry, 1)}
		brief.will = &will{topic: h.topic("gone"), payload: "brief"}
		c, watcher := h.join(brief), h.join(connect{})
		c.subscribe(1, h.topic("q"))
		watcher.subscribe(0, h.topic("gone"))
		c.quit(disconnectWithWill, nil)
		watcher.receive(publish{topic: h.topic("gone"), payload: "brief"}) // from then on its time counts
		long := h.join(persistent("long", h.scene))
		long.subscribe(1, h.topic("q"))
		long.leave()
		publisher := h.join(connect{})
		publisher.publish(publish{topic: h.topic("q"), qos: 1, payload: "short", props: propU32(messageExpiry, 1)})
		publisher.publish(publish{topic: h.topic("q"), qos: 1, payload: "long"})
		publisher.publish(publish{topic: h.topic("clock"), qos: 1, retain: true, payload: "x", props: propU32(messageExpiry, 2)})
		h.settled()
		h.restart()
		h.untilRetained(h.topic("clock"), "time has gone by", func(_ packet, ok bool) bool { return !ok })
		h.begin(brief)
		long = h.resume(persistent("long", h.scene))
		long.receiveAll(1, true, func(int) publish { return publish{topic: h.topic("q"), qos: 1, payload: "long"} })
		long.expectPong()
	})
}
