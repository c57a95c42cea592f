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

// numbered makes messages to a topic, their payloads numbers in order.
func numbered(topic string, from, n int, qos byte) (list []messaging.Message) {
	for i := range n {
		list = append(list, messaging.Message{Topic: topic, Payload: fmt.Append(nil, from+i), QoS: qos})
	}
	return list
}

// wantNumbers receives numbers in order, each once.
func (p *peer) wantNumbers(n int) {
	p.t.Helper()
	for i := range n {
		if got := string(p.next().Payload); got != fmt.Sprint(i) {
			p.t.Fatalf("got %s, want %d", got, i)
		}
	}
}

// reach waits until a feed can publish.
func reach(t testing.TB, f *Feed) {
	t.Helper()
	brokertest.WaitFor(t, "the broker is reached", func() bool { return f.Reached() == nil })
}

// TestPublish publishes in order with any QoS, more than the broker takes at a
// time, for many callers at once.
func TestPublish(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		f, _ := run(t, o)
		reach(t, f)
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

// TestPublishRefused counts what the broker does not take, and goes on.
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	dynsec(t, server, `{"command":"createRole","rolename":"not","acls":[{"acltype":"publishClientSend","topic":"no/#","priority":9,"allow":false}]},
		{"command":"createClient","username":"u","password":"pw","roles":[{"rolename":"not","priority":9},{"rolename":"admin","priority":1}]}`)
	o := options(server, server.Addr)
	o.Username, o.Password = "u", "pw"
	f, _ := run(t, o)
	reach(t, f)
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

// TestPublishBounds keeps within what the broker says that it takes.
func TestPublishBounds(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	f, _ := run(t, options(server, server.Addr))
	reach(t, f)
	f.publisher.mu.Lock()
	f.publisher.conn.allowed.maxPacket, f.publisher.conn.allowed.maxQoS = 100, 1
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

// TestPublishOverACut goes on on the next connection with what was under way on
// the one before; nothing above QoS 0 is lost, and nothing of QoS 2 comes twice.
func TestPublishOverACut(t *testing.T) {
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
					reach(t, f)
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

// TestPublishGivenUp says that the broker is not reached when it does not come
// back in time, and never sends again what was given up.
func TestPublishGivenUp(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	o := options(server, proxy.Addr)
	o.Timing.Answer = 50 * time.Millisecond
	f, _ := run(t, o)
	reach(t, f)
	p := join(t, server)
	p.subscribe("out")
	held := proxy.Hold()
	result := make(chan error, 1)
	go func() {
		done, _, err := f.Publish(context.Background(), numbered("out", 0, 10, 2))
		if done != 0 {
			err = fmt.Errorf("%d are done with", done)
		}
		result <- err
	}()
	<-held
	proxy.Sever()
	if err := <-result; broker.KindOf(err) != broker.Unavailable {
		t.Errorf("Publish() = %v", err)
	}
	proxy.Pass()
	reach(t, f)
	f.publisher.mu.Lock()
	present := f.publisher.conn.allowed.present
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

// TestPublishGivenUpMeanwhile gives messages up while the CONNECT is under way that
// would go on with their session.
func TestPublishGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	o := options(server, proxy.Addr)
	o.Timing.Answer = 200 * time.Millisecond
	f, _ := run(t, o)
	reach(t, f)
	held := proxy.Hold()
	result := make(chan error, 1)
	go func() {
		_, _, err := f.Publish(context.Background(), numbered("out", 0, 10, 2))
		result <- err
	}()
	<-held
	held = proxy.Hold() // the CONNECT that follows
	proxy.Cut()
	<-held
	if err := <-result; broker.KindOf(err) != broker.Unavailable {
		t.Errorf("Publish() = %v", err)
	}
	proxy.Pass()
	reach(t, f)
	f.publisher.mu.Lock()
	present := f.publisher.conn.allowed.present
	f.publisher.mu.Unlock()
	if present {
		t.Error("the session holds what was given up")
	}
}

// TestPublishEnds ends with the context, while the broker says nothing.
func TestPublishEnds(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	f, stop := run(t, options(server, proxy.Addr))
	reach(t, f)
	struck := proxy.Silence()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 2)
	go func() { // more than the window, so that it waits in the middle
		done, _, err := f.Publish(ctx, numbered("out", 0, 100, 1))
		if done != 0 {
			err = fmt.Errorf("%d are done with", done)
		}
		result <- err
	}()
	<-struck
	go func() { // waits for its turn
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

// BenchmarkPublish publishes and takes through a real broker.
func BenchmarkPublish(b *testing.B) {
	for qos := range byte(3) {
		b.Run(fmt.Sprint("QoS ", qos), func(b *testing.B) {
			server := brokertest.Mosquitto(b)
			f, _ := run(b, options(server, server.Addr))
			reach(b, f)
			list := numbered("out", 0, 256, qos)
			for n := 0; n < b.N; n += len(list) {
				if _, _, err := f.Publish(b.Context(), list[:min(len(list), b.N-n)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
