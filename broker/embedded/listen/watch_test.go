package listen_test

import (
	"sync"
	"testing"

	"signalbox/broker/embedded/listen"
	"signalbox/broker/embedded/poll"
)

// watched is a socket whose connections are accepted.
type watched struct {
	socket *poll.Listener
	accept func() (removed func())
}

// newWatch returns a Watch until the test ends, nil where there is none.
func newWatch(t *testing.T) listen.Watch {
	t.Helper()
	set, err := poll.NewSet[*watched]()
	if err != nil {
		return nil
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		var ready []*watched
		for {
			var err error
			if ready, err = set.Wait(ready[:0]); err != nil {
				return
			}
			for _, w := range ready {
				if removed := w.accept(); removed != nil {
					set.Remove(w.socket.Socket)
					removed()
				}
			}
		}
	})
	t.Cleanup(func() {
		set.Close()
		waiting.Wait()
	})
	return func(socket *poll.Listener, accept func() (removed func())) (stop func()) {
		if err := set.Add(socket.Socket, &watched{socket, accept}); err != nil {
			t.Error(err)
			return nil
		}
		return func() { set.Remove(socket.Socket) }
	}
}
