package mqtttest

import (
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/scripts/suite"
)

// Paho is a client of MQTT 3.1.1 of the Paho library, which connects once.
type Paho struct {
	mqtt.Client
	Lost chan struct{} // closed when the broker has closed the connection
}

// NewPaho returns a client that is not connected yet.
func NewPaho(address string, options func(*mqtt.ClientOptions)) *Paho {
	p := &Paho{Lost: make(chan struct{})}
	o := mqtt.NewClientOptions().AddBroker("tcp://" + address).SetProtocolVersion(4).
		SetAutoReconnect(false).SetConnectTimeout(suite.HangLimit).SetWriteTimeout(suite.HangLimit).
		SetConnectionLostHandler(func(mqtt.Client, error) { close(p.Lost) })
	options(o)
	p.Client = mqtt.NewClient(o)
	return p
}

// LogIn connects for the duration of the test. The error is the broker's refusal. Without a
// client id the broker assigns one.
func LogIn(t testing.TB, address, clientID, username, password string) (*Paho, error) {
	t.Helper()
	p := NewPaho(address, func(o *mqtt.ClientOptions) { o.SetClientID(clientID).SetUsername(username).SetPassword(password) })
	token := p.Connect()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatal("no CONNACK")
	}
	t.Cleanup(func() { p.Disconnect(0) })
	return p, token.Error()
}

// Join is LogIn for a client that must be accepted.
func Join(t testing.TB, address, username, password string) *Paho {
	t.Helper()
	p, err := LogIn(t, address, "", username, password)
	if err != nil {
		t.Fatalf("log in as %s: %v", username, err)
	}
	return p
}

// Accepts reports whether the broker accepts these credentials.
func Accepts(t testing.TB, address, username, password string) bool {
	t.Helper()
	_, err := LogIn(t, address, "", username, password)
	return err == nil
}

// Acknowledged fails the test unless the broker acknowledges.
func Acknowledged(t testing.TB, token mqtt.Token) {
	t.Helper()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatal("the broker does not answer")
	}
	if err := token.Error(); err != nil {
		t.Fatal(err)
	}
}

// WantLost waits until the broker has closed the connection.
func (p *Paho) WantLost(t testing.TB) {
	t.Helper()
	select {
	case <-p.Lost:
	case <-time.After(suite.HangLimit):
		t.Fatal("the client was not disconnected")
	}
}

// SubscribeCode subscribes at QoS 1 without a handler of its own, and returns the code of the
// SUBACK.
func (p *Paho) SubscribeCode(t testing.TB, filter string) byte {
	t.Helper()
	token := p.Subscribe(filter, 1, nil).(*mqtt.SubscribeToken) //nolint:forcetypeassert // as documented
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatalf("no SUBACK for %s", filter)
	}
	return token.Result()[filter]
}
