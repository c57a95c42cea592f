package conformance

import (
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded"
)

// TestLogin shows how a broker refuses clients: [MQTT-3.1.4-2] of MQTT 5, and
// [MQTT-3.2.2-4] [MQTT-3.2.2-5], in MQTT 5 [MQTT-3.2.2-6] [MQTT-3.2.2-7].
func TestLogin(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		right := connect{version: s.version, clientID: s.id("a"), username: s.subject.username, password: s.subject.password}
		for name, change := range map[string]func(*connect){
			"nobody":           func(c *connect) { c.username, c.password = "", "" },
			"no password":      func(c *connect) { c.password = "" },
			"a wrong password": func(c *connect) { c.password += "x" },
			"half a password":  func(c *connect) { c.password = c.password[:4] },
			"a stranger":       func(c *connect) { c.username += "x" },
			"another spelling": func(c *connect) { c.username = "Admin" },
		} {
			s.each(name, func(s *scene) {
				wrong := right
				change(&wrong)
				c := s.dial()
				c.send(wrong.bytes())
				c.expectRefusal(5, notAuthorized)
			})
		}
		s.join(right).expectPong()
	}, withLogin())
}

// TestLoginRefusedChangesNothing shows [MQTT-3.1.4-5], in MQTT 5 [MQTT-3.1.4-6]: a refused
// client takes over no session, ends none, leaves no Will, and its further packets are
// ignored; and the refusal reports no session even if there is one [MQTT-3.2.2-4], in MQTT
// 5 [MQTT-3.2.2-6].
func TestLoginRefusedChangesNothing(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		as := connect{clientID: s.id("a"), keep: true, props: s.expiry(60), username: s.subject.username, password: s.subject.password}
		first := s.join(as)
		first.subscribe(1, s.topic("#"))
		intruder := connect{version: s.version, clientID: s.id("a"), username: s.subject.username, password: "guessed",
			will: &will{topic: s.topic("w"), payload: "wrong", qos: 1}}
		for range 3 {
			c := s.dial()
			c.send(intruder.bytes())
			c.expectRefusal(5, notAuthorized)
		}
		deaf := s.dial()
		deaf.sendAnyway(intruder.bytes(), publish{topic: s.topic("x"), payload: "of an intruder", qos: 1, id: 1}.bytes(s.version))
		deaf.expectGone()
		first.expectPong()
		first.leave()
		c := s.dial()
		c.send(intruder.bytes())
		c.expectRefusal(5, notAuthorized)
		_, ack := s.greet(as)
		if ack.present != s.hasSessionPresent() {
			s.Errorf("got %v, want the session present", ack)
		}
	}, withLogin())
}

// TestConnectTimeout shows that a connection has a limited time for its CONNECT, whether it
// sends nothing or only half of it.
func TestConnectTimeout(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		s.expectEnded(nil)
		s.expectEnded(connect{version: v5, clientID: s.id("a")}.bytes()[:9])
		brokertest.WaitFor(s, "a client that sends CONNECT in time is accepted", func() bool {
			conn, err := dialStream(s.subject.addr(s.ws), s.ws)
			if err != nil {
				return false
			}
			defer conn.Close()
			c := &client{scene: s, conn: conn}
			c.startReading()
			c.sendAnyway(connect{version: s.version, clientID: s.id("b")}.bytes())
			p, err := c.read()
			return err == nil && p.kind() == typeConnack && p.reason() == success
		})
	}, configured(func(c *embedded.Config) { c.ConnectTimeout = 200 * time.Millisecond }),
		notOn(kindMosquitto, "2.0.11 waits for ever"))
}

// TestSessionExpiryIsLimited shows that a broker may keep a session for less than was
// requested, and reports that in CONNACK; the interval of DISCONNECT is limited as well.
func TestSessionExpiryIsLimited(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		for name, asked := range map[string]uint32{"long": 600, "forever": 0xffffffff, "later": 1} {
			c, ack := s.greet(connect{clientID: s.id(name), props: s.expiry(asked)})
			if got, want := ack.number(sessionExpiry, int(asked)), min(int(asked), 2); got != want {
				s.Errorf("asked for %d seconds, got %d, want %d", asked, got, want)
			}
			c.quit(success, s.expiry(600))
		}
		s.outlive(watcher, 2)
		s.outlive(watcher, 2)
		for _, name := range []string{"long", "forever", "later"} {
			if _, ack := s.greet(connect{clientID: s.id(name), keep: true}); ack.present {
				s.Errorf("%s: the session still exists", name)
			}
		}
	}, configured(func(c *embedded.Config) { c.MaxSessionExpiry = 2 * time.Second }),
		notOn(kindMosquitto, "2.0.11 has no such limit"))
}

// TestShutdown shows how a broker that stops disconnects: in MQTT 5 with DISCONNECT and
// reason 0x8b, before that by closing the connection.
func TestShutdown(t *testing.T) {
	t.Parallel()
	b := &subject{kind: kindEmbedded}
	b.start(t)
	var clients []*client
	for _, ws := range []bool{false, true} {
		for _, version := range everyVersion {
			s := &scene{T: t, subject: b, version: version, ws: ws, mark: transport(ws) + string('0'+rune(version))}
			clients = append(clients, s.join(connect{}))
		}
	}
	if err := closeEmbedded(b.embedded); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		c.expectEnd(serverShuttingDown)
	}
}
