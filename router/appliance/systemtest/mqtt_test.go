package systemtest

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// device is an MQTT client of a test.
type device struct {
	mqtt.Client
	cut chan struct{} // closed when the broker closes the connection
}

// logIn connects, for the duration of the test.
func logIn(t testing.TB, address, username, password string) (*device, error) {
	t.Helper()
	return logInAs(t, address, "", username, password)
}

// logInAs is logIn with a client id.
func logInAs(t testing.TB, address, clientID, username, password string) (*device, error) {
	t.Helper()
	d := newDevice(address, func(o *mqtt.ClientOptions) { o.SetClientID(clientID).SetUsername(username).SetPassword(password) })
	token := d.Connect()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatal("no CONNACK")
	}
	t.Cleanup(func() { d.Disconnect(0) })
	return d, token.Error()
}

// newDevice returns one that connects once.
func newDevice(address string, options func(*mqtt.ClientOptions)) *device {
	d := &device{cut: make(chan struct{})}
	o := mqtt.NewClientOptions().AddBroker("tcp://" + address).SetProtocolVersion(4).
		SetAutoReconnect(false).SetConnectTimeout(suite.HangLimit).SetWriteTimeout(suite.HangLimit).
		SetConnectionLostHandler(func(mqtt.Client, error) { close(d.cut) })
	options(o)
	d.Client = mqtt.NewClient(o)
	return d
}

// join is logIn for a client that must be accepted.
func join(t testing.TB, address, username, password string) *device {
	t.Helper()
	d, err := logIn(t, address, username, password)
	if err != nil {
		t.Fatalf("log in as %s: %v", username, err)
	}
	return d
}

// acknowledged fails the test unless the broker acknowledges.
func acknowledged(t testing.TB, token mqtt.Token) {
	t.Helper()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatal("the broker does not answer")
	}
	if err := token.Error(); err != nil {
		t.Fatal(err)
	}
}

// wantCutOff waits until the broker closes the connection.
func (d *device) wantCutOff(t testing.TB) {
	t.Helper()
	select {
	case <-d.cut:
	case <-time.After(suite.HangLimit):
		t.Fatal("a client was not cut off")
	}
}

// letsIn reports whether the broker accepts these credentials.
func letsIn(t testing.TB, address, username, password string) bool {
	t.Helper()
	_, err := logIn(t, address, username, password)
	return err == nil
}

// subscribe returns the code of the SUBACK.
func (d *device) subscribe(t testing.TB, filter string) byte {
	t.Helper()
	token := d.Subscribe(filter, 1, nil).(*mqtt.SubscribeToken)
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatalf("no SUBACK for %s", filter)
	}
	return token.Result()[filter]
}

// tool prepares one of Mosquitto's command-line clients. If they are not installed the
// test is skipped, but not in CI.
func tool(t testing.TB, name, address, username, password string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		process.Missing(t, name+" is not installed (apt-get install mosquitto-clients)")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"-h", host, "-p", port, "-u", username, "-P", password}, args...)...)
	cmd.SysProcAttr = process.DieWithParent()
	cmd.Env = []string{"HOME=" + t.TempDir()} // no configuration of the user's own
	return cmd
}

// listener is a mosquitto_sub that runs next to the test.
type listener struct{ *process.Process }

// listen starts mosquitto_sub and waits until its subscription is acknowledged. stdbuf
// makes it write line by line, also without a terminal.
func listen(t testing.TB, cmd *exec.Cmd) *listener {
	t.Helper()
	cmd.Args = append([]string{"stdbuf", "-oL", cmd.Path}, append(cmd.Args[1:], "-d")...)
	cmd.Path = "/usr/bin/stdbuf"
	p, err := process.Start(cmd, func(line string) bool { return strings.Contains(line, "received SUBACK") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &listener{p}
}

// messages returns the lines that are not the tool's notes about its packets.
func (l *listener) messages() []string {
	var lines []string
	for line := range strings.Lines(l.Stdout.String() + l.Stderr.String()) {
		if !strings.HasPrefix(line, "Client ") && !strings.HasPrefix(line, "Subscribed ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
