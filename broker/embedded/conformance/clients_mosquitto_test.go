package conformance

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// tool prepares one of Mosquitto's programs, which must be installed.
func (s *scene) tool(name string, args ...string) *exec.Cmd {
	s.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err != nil && os.Getenv("CI") != "":
		s.Fatalf("%s is not installed (apt-get install mosquitto-clients)", name)
	case err != nil:
		s.Skipf("%s is not installed (apt-get install mosquitto-clients)", name)
	}
	host, port := hostPort(s.T, s.subject.tcp)
	version := map[byte]string{v31: "31", v311: "311", v5: "5"}[s.version]
	return exec.CommandContext(s.soon(), path, append([]string{"-h", host, "-p", port, "-V", version}, args...)...)
}

// run runs a program to its end and returns its output.
func (s *scene) run(name string, args ...string) string {
	s.Helper()
	out, err := s.tool(name, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// listen starts mosquitto_sub and returns once it has subscribed; the function returns the
// lines that it has printed by its end.
func (s *scene) listen(args ...string) (ended func() []string) {
	s.Helper()
	cmd, lines := s.startSub(args...)
	return func() (printed []string) {
		s.Helper()
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), "Client ") {
				printed = append(printed, lines.Text())
			}
		}
		if err := cmd.Wait(); err != nil {
			s.Errorf("mosquitto_sub: %v", err)
		}
		return printed
	}
}

// startSub starts mosquitto_sub and reads its output until it has subscribed. stdbuf makes
// it write line by line, though its output is not a terminal.
func (s *scene) startSub(args ...string) (*exec.Cmd, *bufio.Scanner) {
	s.Helper()
	cmd := s.tool("mosquitto_sub", append(args, "-d")...)
	cmd.Args = append([]string{"stdbuf", "-oL", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/usr/bin/stdbuf"
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Subscribed ") {
			return cmd, lines
		}
	}
	s.Fatalf("mosquitto_sub ended before it had subscribed: %v", cmd.Wait())
	return nil, nil
}

// overTCP runs a test with programs that support TCP only.
func overTCP(t *testing.T, versions []byte, test func(s *scene), opts ...option) {
	t.Helper()
	play(t, versions, func(s *scene) {
		if !s.ws {
			test(s)
		}
	}, opts...)
}

// TestClientMosquittoPubSub sends messages from mosquitto_pub to mosquitto_sub in every
// version and QoS.
func TestClientMosquittoPubSub(t *testing.T) {
	overTCP(t, everyVersion, func(s *scene) {
		for qos := range 3 {
			topic := s.topic(fmt.Sprint(qos))
			ended := s.listen("-i", s.id(fmt.Sprint("sub", qos)), "-t", topic, "-q", fmt.Sprint(qos), "-C", "3", "-F", "%t %q %p")
			for _, payload := range []string{"one", "two", "three"} {
				s.run("mosquitto_pub", "-t", topic, "-q", fmt.Sprint(qos), "-m", payload)
			}
			want := []string{topic + fmt.Sprintf(" %d one", qos), topic + fmt.Sprintf(" %d two", qos), topic + fmt.Sprintf(" %d three", qos)}
			got := ended()
			if qos == 0 { // each is published by another client, and the broker's receipt is not visible
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				s.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// TestClientMosquittoRetained sets, reads and clears a retained message.
func TestClientMosquittoRetained(t *testing.T) {
	overTCP(t, everyVersion, func(s *scene) {
		s.run("mosquitto_pub", "-t", s.topic("a"), "-q", "1", "-r", "-m", "kept")
		if got := s.run("mosquitto_sub", "-t", s.topic("#"), "-q", "1", "-C", "1", "-F", "%r %p"); got != "1 kept\n" {
			s.Errorf("got %q", got)
		}
		s.run("mosquitto_pub", "-t", s.topic("a"), "-q", "1", "-r", "-n")
		s.run("mosquitto_pub", "-t", s.topic("b"), "-q", "1", "-r", "-m", "other")
		if got := s.run("mosquitto_sub", "-t", s.topic("#"), "-q", "1", "-C", "1", "-F", "%r %p"); got != "1 other\n" {
			s.Errorf("got %q", got)
		}
	})
}

// TestClientMosquittoQueue queues messages for a mosquitto_sub that is not connected.
func TestClientMosquittoQueue(t *testing.T) {
	overTCP(t, everyVersion, func(s *scene) {
		args := []string{"-i", s.id("sub"), "-c", "-t", s.topic("x"), "-q", "2"}
		if s.five() {
			args = append(args, "-x", "3600")
		}
		s.run("mosquitto_sub", append(args, "-E")...)
		for i := range 5 {
			s.run("mosquitto_pub", "-t", s.topic("x"), "-q", "1", "-m", fmt.Sprint(i))
		}
		if got := s.run("mosquitto_sub", append(args, "-C", "5")...); got != "0\n1\n2\n3\n4\n" {
			s.Errorf("got %q", got)
		}
	})
}

// TestClientMosquittoProperties passes the properties of MQTT 5 from one program to the
// other.
func TestClientMosquittoProperties(t *testing.T) {
	overTCP(t, onlyFive, func(s *scene) {
		ended := s.listen("-t", s.topic("x"), "-q", "1", "-C", "1", "-F", "%p %C %R %D %F %P", "-D", "subscribe", "subscription-identifier", "9")
		s.run("mosquitto_pub", "-t", s.topic("x"), "-q", "1", "-m", "hello", "-D", "publish", "content-type", "text/plain",
			"-D", "publish", "response-topic", "answer", "-D", "publish", "correlation-data", "c1",
			"-D", "publish", "payload-format-indicator", "1", "-D", "publish", "user-property", "k", "v")
		want := []string{"hello text/plain answer c1 1 k:v"}
		if got := ended(); !slices.Equal(got, want) {
			s.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestClientMosquittoRequest sends a request with mosquitto_rr, to which a raw client
// responds.
func TestClientMosquittoRequest(t *testing.T) {
	overTCP(t, onlyFive, func(s *scene) {
		c := s.join(connect{})
		c.subscribe(0, s.topic("ask"))
		cmd := s.tool("mosquitto_rr", "-t", s.topic("ask"), "-e", s.topic("answer"), "-m", "why?")
		var printed strings.Builder
		cmd.Stdout = &printed
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		question := c.next()
		c.publish(publish{topic: question.textOf(responseTopic), payload: "because"})
		if err := cmd.Wait(); err != nil {
			s.Errorf("mosquitto_rr: %v", err)
		}
		if got := printed.String(); question.payload != "why?" || got != "because\n" {
			s.Errorf("asked %q, answered %q", question.payload, got)
		}
	})
}

// TestClientMosquittoWill kills a mosquitto_sub and expects its Will.
func TestClientMosquittoWill(t *testing.T) {
	overTCP(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		c.subscribe(1, s.topic("#"))
		cmd, _ := s.startSub("-t", s.topic("x"), "--will-topic", s.topic("w"), "--will-payload", "killed", "--will-qos", "1")
		if err := cmd.Process.Kill(); err != nil {
			s.Fatal(err)
		}
		c.receive(publish{topic: s.topic("w"), payload: "killed", qos: 1})
		cmd.Wait() //nolint:errcheck // it was killed
	})
}

// TestClientMosquittoBridge connects a Mosquitto as a bridge, in the versions that a bridge
// supports, and passes messages through it in both directions. Before MQTT 5 a bridge is
// marked by the highest bit of the protocol level.
func TestClientMosquittoBridge(t *testing.T) {
	overTCP(t, everyVersion, func(s *scene) {
		near := s.join(connect{})
		near.subscribe(2, s.topic("#")) // before the bridge sends anything
		far := brokertest.Mosquitto(s, brokertest.WithoutPlugin(), brokertest.WithConfig(
			"connection "+s.id("bridge"), "address "+s.subject.tcp, "remote_clientid "+s.id("remote"),
			"bridge_protocol_version "+map[byte]string{v31: "mqttv31", v311: "mqttv311", v5: "mqttv50"}[s.version],
			"try_private true", "cleansession false", "notifications true", "restart_timeout 1 1", "keepalive_interval 3600",
			"notification_topic "+s.topic("state"),
			`topic out/# out 2 "" `+s.topic(""), `topic in/# in 2 "" `+s.topic(""),
		))
		for p := near.next(); p.topic != s.topic("state") || p.payload != "1"; p = near.next() {
			s.Logf("before the bridge is connected: %v", p)
		}
		remote := &scene{T: s.T, subject: &subject{kind: kindMosquitto, tcp: far.Addr}, version: v311, mark: s.mark}
		there := remote.join(connect{})
		there.subscribe(2, "in/#")
		for qos := range byte(3) {
			there.publish(publish{topic: "out/x", payload: fmt.Sprint(qos), qos: qos})
			near.receive(publish{topic: s.topic("out/x"), payload: fmt.Sprint(qos), qos: qos})
			near.send(publish{topic: s.topic("in/x"), payload: fmt.Sprint(qos), qos: qos, id: 50}.bytes(s.version))
			near.finish(publish{topic: s.topic("in/x"), payload: fmt.Sprint(qos), qos: qos}, 50)
			there.receive(publish{topic: "in/x", payload: fmt.Sprint(qos), qos: qos})
		}
	})
}

// finish completes both halves of a message that a client sends to itself: its
// acknowledgement and its delivery, in whatever order they are interleaved.
func (c *client) finish(m publish, id uint16) {
	c.Helper()
	owed := map[byte]int{0: 1, 1: 2, 2: 4}[m.qos]
	for range owed {
		switch p := c.next(); {
		case p.kind() == typePublish && p.topic == m.topic && p.payload == m.payload && p.qos() == m.qos:
			if m.qos == 1 {
				c.send(ack(c.version, typePuback, p.id, success))
			}
			if m.qos == 2 {
				c.send(ack(c.version, typePubrec, p.id, success))
			}
		case p.kind() == typePubrec && p.id == id:
			c.send(ack(c.version, typePubrel, id, success))
		case p.kind() == typePubrel:
			c.send(ack(c.version, typePubcomp, p.id, success))
		case p.kind() == typePuback && p.id == id, p.kind() == typePubcomp && p.id == id:
		default:
			c.Fatalf("%s: got %v while %q is under way to itself", c.name, p, m.topic)
		}
	}
}
