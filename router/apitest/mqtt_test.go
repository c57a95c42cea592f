package apitest_test

import (
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/scripts/suite"
)

// client is an MQTT client of a test.
type client struct {
	t    *testing.T
	mqtt mqtt.Client
	cut  chan struct{}
}

func connect(t *testing.T, address, username, password string) (*client, error) {
	c := &client{t: t, cut: make(chan struct{})}
	o := mqtt.NewClientOptions().AddBroker("tcp://" + address).SetUsername(username).SetPassword(password).
		SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(suite.HangLimit).SetWriteTimeout(suite.HangLimit).
		SetConnectionLostHandler(func(mqtt.Client, error) { close(c.cut) })
	c.mqtt = mqtt.NewClient(o)
	token := c.mqtt.Connect()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatal("no CONNACK")
	}
	return c, token.Error()
}

// dial connects an MQTT client for the duration of the test.
func dial(t *testing.T, address, username, password string) *client {
	t.Helper()
	c, err := connect(t, address, username, password)
	if err != nil {
		t.Fatalf("connect as %s: %v", username, err)
	}
	t.Cleanup(func() { c.mqtt.Disconnect(0) })
	return c
}

// tryDial connects and disconnects.
func tryDial(t *testing.T, address, username, password string) error {
	t.Helper()
	c, err := connect(t, address, username, password)
	if err == nil {
		c.mqtt.Disconnect(0)
	}
	return err
}

// subscribe returns the code of the SUBACK.
func (c *client) subscribe(filter string) byte {
	c.t.Helper()
	token := c.mqtt.Subscribe(filter, 1, nil).(*mqtt.SubscribeToken)
	if !token.WaitTimeout(suite.HangLimit) {
		c.t.Fatalf("no SUBACK for %s", filter)
	}
	return token.Result()[filter]
}

// wantCutOff waits until the broker closes the connection.
func (c *client) wantCutOff() {
	c.t.Helper()
	select {
	case <-c.cut:
	case <-time.After(suite.HangLimit):
		c.t.Error("the client was not cut off")
	}
}
