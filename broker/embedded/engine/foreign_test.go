package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// slowToNotice is a Watcher that learns only slowly that a client has left.
type slowToNotice struct{ until chan struct{} }

func (slowToNotice) Connected(engine.ClientEvent)                   {}
func (w slowToNotice) Disconnected(engine.ClientEvent, byte)        { <-w.until }
func (slowToNotice) Refused(engine.ClientEvent, byte, string)       {}
func (slowToNotice) Denied(engine.ClientEvent, engine.Kind, string) {}

func as(username string, h packet.Connect) packet.Connect {
	h.Username, h.HasUsername = username, true
	return h
}

// TestClientIDOfAUserThatLeft connects with a client id as soon as the connection of another user has
// ended, while the broker has still to end the session of that. The client is let in if the session ends, and
// refused if it stays.
func TestClientIDOfAUserThatLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first packet.Connect
		want  error
	}{
		"a session that ends":  {fresh("c"), nil},
		"a session that stays": {keeps("c"), enginetest.Refused(packet.ReasonClientIDNotValid)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				left := make(chan struct{})
				b := enginetest.Unconnected(t, suite.HangLimit, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { p.Watcher = slowToNotice{left} })
				check(t, b.Resume(t.Context()))
				first := b.Connect(as("first", c.first))
				first.Send([]byte{packet.TypeDisconnect << 4, 0})
				first.AwaitClose()
				second := make(chan error)
				go func() {
					client, err := b.TryConnect(as("second", fresh("c")))
					if err == nil {
						defer client.Close()
					}
					second <- err
				}()
				synctest.Wait()
				close(left)
				if err := <-second; !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				b.Close()
			})
		})
	}
}
