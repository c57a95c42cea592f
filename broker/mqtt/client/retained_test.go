package client

import (
	"fmt"
	"slices"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
)

// TestRetained publishes retained messages and lists them.
func TestRetained(t *testing.T) {
	inBothModes(t, func(t *testing.T, _ *brokertest.Server, o Options, _ bool) {
		f, _ := run(t, o)
		waitConnected(t, f)
		var want []string
		for i := range 300 {
			m := messaging.Message{Topic: fmt.Sprint("kept/", i), Payload: fmt.Append(nil, i), QoS: byte(i % 3), Retain: i%2 == 0}
			if done, refused, err := f.Publish(t.Context(), []messaging.Message{m}); done != 1 || refused != 0 || err != nil {
				t.Fatalf("Publish() = %d, %d, %v", done, refused, err)
			}
			if m.Retain {
				want = append(want, m.Topic+"="+string(m.Payload))
			}
		}
		slices.Sort(want)
		brokertest.WaitFor(t, "all are retained", func() bool { return slices.Equal(retained(t, f, "kept/#"), want) })
		if got := retained(t, f, "other/#"); len(got) != 0 {
			t.Errorf("got %q, want none", got)
		}
		for m, err := range f.Retained(t.Context(), "kept/+") {
			if err != nil || !m.Retain || m.QoS != 1 {
				t.Errorf("got %+v, %v", m, err)
			}
			break
		}
	})
}

// retained lists topics and payloads, in order.
func retained(t *testing.T, f *Client, filter string) (list []string) {
	t.Helper()
	for m, err := range f.Retained(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Topic+"="+string(m.Payload))
	}
	slices.Sort(list)
	return list
}

// TestRetainedRefused returns why nothing is listed.
func TestRetainedRefused(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	o := options(server, server.Addr)
	o.Password = "wrong"
	f := New(o)
	n := 0
	for _, err := range f.Retained(t.Context(), "#") {
		if n++; err == nil {
			t.Error("got a message")
		}
	}
	if n != 1 {
		t.Errorf("got %d results, want an error", n)
	}
}

// TestTakenRetain reports RETAIN, and delivers retained messages if they are wanted: once per
// session in MQTT 5.
func TestTakenRetain(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		t.Run(fmt.Sprint("wanted=", wanted), func(t *testing.T) {
			t.Parallel()
			server := brokertest.Mosquitto(t)
			p := join(t, server)
			p.send(&paho.Publish{Topic: "kept", Payload: []byte("before"), QoS: 1, Retain: true})
			o := options(server, server.Addr)
			o.Retained = wanted
			f, stop := run(t, o)
			s, _ := take(f, "#", false)
			waitSubscribed(t, f)
			p.send(&paho.Publish{Topic: "kept", Payload: []byte("now"), QoS: 1, Retain: true})
			p.send(&paho.Publish{Topic: "plain", Payload: []byte("now"), QoS: 1})
			want := []string{"before", "now", "now"}
			if !wanted {
				want = want[1:]
			}
			s.want(t, want...)
			for _, m := range s.list() {
				if m.Retain != (m.Topic == "kept") {
					t.Errorf("%s: got RETAIN %v", m.Topic, m.Retain)
				}
			}
			stop()
			again, _ := run(t, o)
			s, _ = take(again, "#", false)
			waitSubscribed(t, again)
			p.publish("plain", "later")
			s.want(t, "later")
		})
	}
}
