package systemtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// TestStopUnderLoad stops a service while it is busy over HTTP and MQTT. It ends in
// time, and the next start has everything that was acknowledged.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			p := serve(t, dir, configured(settings{"HTTP_LISTEN": ownAddress(t)}))
			r := root(t, p)
			r.sensor(t, "pump-7", "secret")
			l, load := newExpectedState(100), load{t: t}
			load.start(p, r, l)
			l.await(t)
			late, signalled := begin(t, r, "late"), time.Now()
			l.pending("late")
			p.Signal(s)
			suite.WaitFor(t, "no more connections are taken", func() bool { return !accepts(p.API) })
			if got, err := late.finish(); got == http.StatusNoContent {
				l.acknowledge("late", created)
			} else if err == nil || time.Since(signalled) < drainTime {
				t.Errorf("a request in flight was answered %d, want 204: %v", got, err)
			}
			p.wantStopped(t)
			load.Wait()
			if got, err := os.ReadFile(filepath.Join(dir, "signalbox.db-wal")); len(got) > 0 {
				t.Errorf("signalbox.db was not checkpointed: %d bytes are left in its log (%v)", len(got), err)
			}
			r.url = serve(t, dir, configured(nil)).API
			present := map[string]bool{}
			for _, name := range r.names(t, "clients") {
				present[name] = true
			}
			delete(present, mqttAdmin)
			delete(present, "pump-7")
			if lost, stray := l.differences(present); len(lost)+len(stray) > 0 {
				t.Errorf("lost %v, stray %v", lost, stray)
			}
		})
	}
}

// drainTime is how long a stopping service waits for requests in flight.
const drainTime = 5 * time.Second

// load is traffic until the service has ended.
type load struct {
	t testing.TB
	sync.WaitGroup
}

func (w *load) start(p *service, r *caller, l *expectedState) {
	for i := range 3 {
		w.Go(func() { w.createClients(r, l, fmt.Sprintf("http-%d", i)) })
		d := mqtttest.Join(w.t, p.MQTT, "pump-7", "secret")
		w.Go(func() { publish(d, l) })
	}
}

// createClients uses a new connection each time: the service may close a persistent one
// just when the next request is sent.
func (w *load) createClients(r *caller, l *expectedState, prefix string) {
	c := *r
	c.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: suite.HangLimit}
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		l.pending(name)
		status, answer, err := c.do(context.Background(), "POST", c.at("/clients"), object{"username": name})
		if err != nil {
			return
		}
		if status != 204 {
			w.t.Errorf("create client: %d %s", status, answer)
			return
		}
		l.acknowledge(name, created)
	}
}

// publish sends messages that count as acknowledged with their PUBACK.
func publish(d *mqtttest.Paho, l *expectedState) {
	for {
		token := d.Publish("plant/temperature", 1, false, "21")
		select {
		case <-token.Done():
			if err := token.Error(); err != nil {
				return
			}
			l.count()
		case <-d.Lost:
			return
		}
	}
}

// inFlight is a request whose body is still to come.
type inFlight struct {
	conn net.Conn
	body string
}

// begin sends the header of a request and waits until the service asks for the body, so
// that the service certainly has the request.
func begin(t *testing.T, c *caller, username string) *inFlight {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	body, err := json.Marshal(object{"username": username})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: signalbox\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", c.at("/clients"), c.token, len(body))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the service does not ask for the body: %q, %v", line, err)
	}
	return &inFlight{conn: conn, body: string(body)}
}

// finish sends the body and returns the status of the response.
func (f *inFlight) finish() (status int, err error) {
	fmt.Fprint(f.conn, f.body)
	response, err := http.ReadResponse(bufio.NewReader(f.conn), nil)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

// ownAddress returns an address that no other process uses, also after the service has
// ended.
func ownAddress(t *testing.T) string { t.Helper(); return brokertest.FreePort(t, suite.Host()) }

func accepts(url string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// TestStopDespiteStuckClients stops while one caller never sends the rest of its
// request, an MQTT client never sends CONNECT and another never reads.
func TestStopDespiteStuckClients(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, configured(nil))
	r := root(t, p)
	begin(t, r, "never")
	silent, err := net.Dial("tcp", p.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d := mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword)
	stuck := make(chan struct{})
	defer close(stuck)
	mqtttest.Acknowledged(t, d.Subscribe("flood", 0, func(mqtt.Client, mqtt.Message) { <-stuck }))
	flooder := mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword)
	for range 100 {
		flooder.Publish("flood", 0, false, strings.Repeat("x", 100_000))
	}
	p.stop(t)
	if got := files(t, dir, "*-wal"); len(got) > 0 {
		t.Errorf("not checkpointed: %v", got)
	}
	r.url = serve(t, dir, configured(nil)).API
	if names := r.names(t, "clients"); len(names) != 1 {
		t.Errorf("got clients %v, want the administrator only", names)
	}
}

// files returns the names in a directory that match a pattern.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRestartKeepsEverything compares everything that the API shows before and after.
func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, configured(nil))
	r := root(t, p)
	made := r.populate(t)
	before := r.describe(t)
	p.stop(t)

	p = serve(t, dir, configured(nil))
	embedded := r.embedded
	r.url = p.API
	r.find(t)
	if r.embedded != embedded {
		t.Errorf("id of the embedded broker: got %s, was %s", r.embedded, embedded)
	}
	if diff := cmp.Diff(before, r.describe(t)); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	r.wantPopulated(t, p, made)
}

// TestBrokerSwitchedOff starts without the broker, between two starts with it.
func TestBrokerSwitchedOff(t *testing.T) {
	t.Parallel()
	dir, address := dataDir(t), ownAddress(t)
	p := serve(t, dir, configured(settings{"BROKER_LISTEN": address}))
	r := root(t, p)
	r.sensor(t, "pump-7", "secret")
	was := r.embedded
	p.stop(t)

	off := serve(t, dir, configured(settings{"BROKER_LISTEN": address, "BROKER_ENABLED": "false"}))
	r.url = off.API
	if off.MQTT != "" || accepts("http://"+address) {
		t.Errorf("a broker is served at %q", off.MQTT)
	}
	if got := r.status(t, "GET", "/readyz", nil); got != 200 {
		t.Errorf("/readyz: got %d, want 200", got)
	}
	if got := r.status(t, "GET", r.at("/clients"), nil); got != 503 {
		t.Errorf("clients of a broker that is switched off: got %d, want 503", got)
	}
	off.stop(t)

	p = serve(t, dir, configured(nil))
	r.url = p.API
	if r.find(t); r.embedded != was {
		t.Errorf("id of the embedded broker: got %s, was %s", r.embedded, was)
	}
	mqtttest.Join(t, p.MQTT, "pump-7", "secret")
}
