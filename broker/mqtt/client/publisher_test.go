package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
)

// numbered returns messages whose payloads are consecutive numbers.
func numbered(topic string, from, n int, qos byte) (list []messaging.Message) {
	for i := range n {
		list = append(list, messaging.Message{Topic: topic, Payload: fmt.Append(nil, from+i), QoS: qos})
	}
	return list
}

// wantNumbers receives the numbers in order, each once.
func (p *peer) wantNumbers(n int) {
	p.t.Helper()
	for i := range n {
		if got := string(p.next().Payload); got != fmt.Sprint(i) {
			p.t.Fatalf("got %s, want %d", got, i)
		}
	}
}

// waitConnected waits until a client can publish.
func waitConnected(t testing.TB, f *Client) {
	t.Helper()
	brokertest.WaitFor(t, "the broker is reached", func() bool { return f.Reached() == nil })
}

// TestPublish publishes in order at any QoS, more than the window, for concurrent callers.
func TestPublish(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		f, _ := run(t, o)
		waitConnected(t, f)
		for qos := range byte(3) {
			var wg sync.WaitGroup
			var peers []*peer
			for caller := range 3 {
				p := join(t, server)
				p.subscribe(fmt.Sprint("out/", caller))
				peers = append(peers, p)
				wg.Go(func() {
					for from := 0; from < 300; from += 100 {
						done, refused, err := f.Publish(t.Context(), numbered(fmt.Sprint("out/", caller), from, 100, qos))
						if done != 100 || refused != 0 || err != nil {
							t.Errorf("Publish() = %d, %d, %v", done, refused, err)
						}
					}
				})
			}
			wg.Wait()
			for _, p := range peers {
				p.wantNumbers(300)
				p.leave()
			}
		}
		if done, refused, err := f.Publish(t.Context(), nil); done != 0 || refused != 0 || err != nil {
			t.Errorf("nothing: %d, %d, %v", done, refused, err)
		}
	})
}

// TestPublishRefused counts what the broker rejects, and continues.
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	dynsec(t, server, `{"command":"createRole","rolename":"not","acls":[{"acltype":"publishClientSend","topic":"no/#","priority":9,"allow":false}]},
		{"command":"createClient","username":"u","password":"pw","roles":[{"rolename":"not","priority":9},{"rolename":"admin","priority":1}]}`)
	o := options(server, server.Addr)
	o.Username, o.Password = "u", "pw"
	f, _ := run(t, o)
	waitConnected(t, f)
	p := join(t, server)
	p.subscribe("#")
	var list []messaging.Message
	for _, qos := range []byte{1, 2} {
		list = append(list, messaging.Message{Topic: "no/1", QoS: qos}, messaging.Message{Topic: "yes", QoS: qos})
	}
	now := time.Now().UnixMilli()
	list = append(list, messaging.Message{Topic: "yes", QoS: 1, ExpiresAt: now - 1})
	done, refused, err := f.Publish(t.Context(), list)
	if done != 5 || refused != 2 || err != nil {
		t.Errorf("Publish() = %d, %d, %v", done, refused, err)
	}
	if done, refused, err = f.Publish(t.Context(), numbered("end", 0, 1, 1)); done != 1 || refused != 0 || err != nil {
		t.Errorf("Publish() = %d, %d, %v", done, refused, err)
	}
	for _, want := range []string{"yes", "yes", "end"} {
		if m := p.next(); m.Topic != want {
			t.Errorf("got %s, want %s", m.Topic, want)
		}
	}
}

// TestPublishBounds respects the limits in CONNACK.
func TestPublishBounds(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	f, _ := run(t, options(server, server.Addr))
	waitConnected(t, f)
	f.publisher.mu.Lock()
	f.publisher.conn.connack.maxPacket, f.publisher.conn.connack.maxQoS = 100, 1
	f.publisher.mu.Unlock()
	p := join(t, server)
	p.subscribe("a")
	done, refused, err := f.Publish(t.Context(), []messaging.Message{{Topic: "a", Payload: []byte(strings.Repeat("x", 100)), QoS: 1}, {Topic: "a", Payload: []byte("y"), QoS: 2}})
	if done != 2 || refused != 1 || err != nil {
		t.Errorf("Publish() = %d, %d, %v", done, refused, err)
	}
	if m := p.next(); string(m.Payload) != "y" || m.QoS != 1 {
		t.Errorf("got %v", m)
	}
}

// TestPublishAfterReconnect continues with messages in flight on the next connection: above
// QoS 0 nothing is lost, and QoS 2 is not duplicated.
func TestPublishAfterReconnect(t *testing.T) {
	t.Parallel()
	for qos := byte(1); qos <= 2; qos++ {
		for _, kind := range []brokertest.PacketType{brokertest.Publish, pubrel} {
			if qos == 1 && kind == pubrel {
				continue
			}
			for name, cut := range map[string]func(*brokertest.Proxy) <-chan struct{}{
				"before": func(p *brokertest.Proxy) <-chan struct{} { return p.CutBefore(kind) },
				"after":  func(p *brokertest.Proxy) <-chan struct{} { return p.CutAfter(kind) },
			} {
				t.Run(fmt.Sprintf("QoS %d, %s packet %d", qos, name, kind), func(t *testing.T) {
					t.Parallel()
					server := brokertest.Mosquitto(t)
					proxy := brokertest.NewProxy(t, server.Addr)
					f, _ := run(t, options(server, proxy.Addr))
					waitConnected(t, f)
					p := join(t, server)
					p.subscribe("out")
					struck := cut(proxy)
					done, refused, err := f.Publish(t.Context(), numbered("out", 0, 50, qos))
					<-struck
					if done != 50 || refused != 0 || err != nil {
						t.Fatalf("Publish() = %d, %d, %v", done, refused, err)
					}
					seen := map[string]bool{}
					p.publish("out", "end")
					for m := p.next(); string(m.Payload) != "end"; m = p.next() {
						if qos == 2 && seen[string(m.Payload)] {
							t.Errorf("%s came twice", m.Payload)
						}
						seen[string(m.Payload)] = true
					}
					if len(seen) != 50 {
						t.Errorf("%d of 50 came", len(seen))
					}
				})
			}
		}
	}
}

const pubrel brokertest.PacketType = 6

// TestPublishGivenUp fails when the broker is not back in time, and does not send again what
// was given up.
func TestPublishGivenUp(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	o := options(server, proxy.Addr)
	o.Timing.ResumeTimeout = 50 * time.Millisecond
	f, _ := run(t, o)
	waitConnected(t, f)
	p := join(t, server)
	p.subscribe("out")
	held := proxy.Hold()
	result := make(chan error, 1)
	go func() {
		done, _, err := f.Publish(context.Background(), numbered("out", 0, 10, 2))
		if done != 0 {
			err = fmt.Errorf("%d are complete", done)
		}
		result <- err
	}()
	<-held
	proxy.Sever()
	if err := <-result; broker.KindOf(err) != broker.Unavailable {
		t.Errorf("Publish() = %v", err)
	}
	proxy.Pass()
	waitConnected(t, f)
	f.publisher.mu.Lock()
	present := f.publisher.conn.connack.sessionPresent
	f.publisher.mu.Unlock()
	if present {
		t.Error("the session holds what was given up")
	}
	if done, _, err := f.Publish(t.Context(), numbered("out", 100, 1, 2)); done != 1 || err != nil {
		t.Errorf("Publish() = %d, %v", done, err)
	}
	var got []string
	for len(got) == 0 || got[len(got)-1] != "100" {
		got = append(got, string(p.next().Payload))
	}
	if !slices.IsSorted(got[:len(got)-1]) || len(got) > 11 {
		t.Errorf("got %q", got)
	}
}

// TestPublishGivenUpDuringConnect abandons messages during a CONNECT that would resume their
// session.
func TestPublishGivenUpDuringConnect(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	o := options(server, proxy.Addr)
	o.Timing.ResumeTimeout = 200 * time.Millisecond
	f, _ := run(t, o)
	waitConnected(t, f)
	held := proxy.Hold()
	result := make(chan error, 1)
	go func() {
		_, _, err := f.Publish(context.Background(), numbered("out", 0, 10, 2))
		result <- err
	}()
	<-held
	held = proxy.Hold() // the next CONNECT
	proxy.Cut()
	<-held
	if err := <-result; broker.KindOf(err) != broker.Unavailable {
		t.Errorf("Publish() = %v", err)
	}
	proxy.Pass()
	waitConnected(t, f)
	f.publisher.mu.Lock()
	present := f.publisher.conn.connack.sessionPresent
	f.publisher.mu.Unlock()
	if present {
		t.Error("the session holds what was given up")
	}
}

// TestPublishEnds ends with the context while the broker sends nothing.
func TestPublishEnds(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	f, stop := run(t, options(server, proxy.Addr))
	waitConnected(t, f)
	struck := proxy.Silence()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 2)
	go func() { // more than the window, so that it waits in the middle
		done, _, err := f.Publish(ctx, numbered("out", 0, 100, 1))
		if done != 0 {
			err = fmt.Errorf("%d are complete", done)
		}
		result <- err
	}()
	<-struck
	go func() { // waits for the semaphore
		_, _, err := f.Publish(ctx, numbered("out", 0, 1, 0))
		result <- err
	}()
	cancel()
	for range 2 {
		if err := <-result; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Publish() = %v", err)
		}
	}
	go func() {
		_, _, err := f.Publish(context.Background(), numbered("out", 0, 1, 1))
		result <- err
	}()
	stop()
	if err := <-result; broker.KindOf(err) != broker.Unavailable {
		t.Errorf("Publish() at the end = %v", err)
	}
}

// BenchmarkPublish publishes through a real broker.
func BenchmarkPublish(b *testing.B) {
	for qos := range byte(3) {
		b.Run(fmt.Sprint("QoS ", qos), func(b *testing.B) {
			server := brokertest.Mosquitto(b)
			f, _ := run(b, options(server, server.Addr))
			waitConnected(b, f)
			list := numbered("out", 0, 256, qos)
			for n := 0; n < b.N; n += len(list) {
				if _, _, err := f.Publish(b.Context(), list[:min(len(list), b.N-n)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
