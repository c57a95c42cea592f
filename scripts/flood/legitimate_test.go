package flood

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// The legitimate clients have an address of their own.
const legitimateAddress = "127.0.0.2"

var (
	legitimateUser = packet.Login{Username: "good", Password: "good password", Clean: true}
	attackUser     = packet.Login{Username: "attacker", Password: "attacker password", Clean: true}
)

// withClientID returns a login with another client id.
func withClientID(l packet.Login, clientID string) packet.Login {
	l.ClientID = clientID
	return l
}

// createUsers creates the two users of the test, each with every right on topics
// of its own.
func createUsers(t *testing.T, s *server) {
	t.Helper()
	const topic = "$CONTROL/dynamic-security/v1"
	l, err := dial(t.Context(), s.MQTT, legitimateAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.logIn(packet.Login{ClientID: "setup", Username: adminName, Password: adminPassword, Clean: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.subscribe(topic+"/response", 0); err != nil {
		t.Fatal(err)
	}
	request := packet.Message{Topic: []byte(topic), Payload: commands(legitimateUser, attackUser)}
	if _, err := l.Write(packet.AppendPublish(nil, request)); err != nil {
		t.Fatal(err)
	}
	answer, err := l.want(packet.Publish)
	if err != nil || strings.Contains(string(answer), `"error"`) {
		t.Fatalf("create the users: %v %s", err, answer)
	}
}

// commands creates a role and a client for each user.
func commands(users ...packet.Login) []byte {
	type object map[string]any
	var list []object
	for _, u := range users {
		var acls []object
		for _, kind := range []string{"publishClientSend", "publishClientReceive", "subscribePattern", "unsubscribePattern"} {
			acls = append(acls, object{"acltype": kind, "topic": u.Username + "/#", "allow": true})
		}
		list = append(list, object{"command": "createRole", "rolename": u.Username, "acls": acls},
			object{"command": "createClient", "username": u.Username, "password": u.Password,
				"roles": []object{{"rolename": u.Username}}})
	}
	b, _ := json.Marshal(object{"commands": list}) // it can always be encoded
	return b
}

// series is a list of durations of the same action.
type series []time.Duration

// quantile returns the duration that the given share of all does not exceed.
func (s series) quantile(share float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(share*float64(len(s))), len(s)-1)]
}

// String returns a summary of the series.
func (s series) String() string {
	return fmt.Sprintf("n=%d p50=%v p99=%v max=%v", len(s), s.quantile(.5), s.quantile(.99), s.quantile(1))
}

// legitimateResults is what legitimate clients measured.
type legitimateResults struct {
	deliveries series // from PUBLISH to its delivery
	logInTimes series // from SYN to CONNACK
	err        error
}

// runLegitimate runs the legitimate clients for a while: a pair exchanges messages of
// QoS 1, over TCP or WebSocket, and further clients log in. The results are by
// transport.
func runLegitimate(ctx context.Context, s *server, d time.Duration) (results map[string]legitimateResults) {
	while, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var mu sync.Mutex
	var tasks sync.WaitGroup
	results = map[string]legitimateResults{}
	for name, connect := range map[string]func() (*link, error){
		"tcp": func() (*link, error) { return dial(ctx, s.MQTT, legitimateAddress) },
		"ws":  func() (*link, error) { return upgrade(dial(ctx, s.WebSocket, legitimateAddress)) },
	} {
		tasks.Go(func() {
			p := pair{name: name, connect: connect}
			one := p.run(while)
			mu.Lock()
			defer mu.Unlock()
			results[name] = one
		})
	}
	tasks.Wait()
	return results
}

// pair is a publisher and a subscriber, and now and then one more client that logs in.
type pair struct {
	name     string
	connect  func() (*link, error)
	pub, sub *link
}

func (p *pair) run(ctx context.Context) (o legitimateResults) {
	if o.err = p.open(); o.err != nil {
		return o
	}
	defer p.pub.Close()
	defer p.sub.Close()
	const apart, loginEvery = 2 * time.Millisecond, 10
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return o
		case <-tick.C:
		}
		if o.err = timed(&o.deliveries, func() error { return p.exchange(i) }); o.err != nil {
			return o
		}
		if i%loginEvery > 0 {
			continue
		}
		if o.err = timed(&o.logInTimes, p.logInOnce); o.err != nil {
			return o
		}
	}
}

// timed appends the duration of do.
func timed(s *series, do func() error) error {
	began := time.Now()
	err := do()
	*s = append(*s, time.Since(began))
	return err
}

// open connects the two.
func (p *pair) open() (err error) {
	if p.pub, err = p.join("pub"); err != nil {
		return err
	}
	if p.sub, err = p.join("sub"); err != nil {
		return err
	}
	return p.sub.subscribe(p.topic(), 1)
}

func (p *pair) topic() string { return "good/" + p.name }

func (p *pair) join(role string) (*link, error) {
	l, err := p.connect()
	if err != nil {
		return nil, err
	}
	if err := l.SetDeadline(time.Now().Add(2 * suite.HangLimit)); err != nil {
		return nil, err
	}
	return l, l.logIn(withClientID(legitimateUser, p.name+"-"+role))
}

// logInOnce logs in and disconnects.
func (p *pair) logInOnce() error {
	l, err := p.join("new")
	if err != nil {
		return fmt.Errorf("a legitimate client that logs in: %w", err)
	}
	l.Write(packet.AppendEmpty(nil, packet.Disconnect)) //nolint:errcheck // it was accepted, which is all that counts
	return l.Close()
}

// exchange publishes one message and waits until it is delivered, and acknowledged on
// both sides.
func (p *pair) exchange(n int) error {
	text := strconv.Itoa(n)
	id := p.pub.next()
	m := packet.Message{Topic: []byte(p.topic()), Payload: []byte(text), QoS: 1, ID: id}
	if _, err := p.pub.Write(packet.AppendPublish(nil, m)); err != nil {
		return err
	}
	body, err := p.sub.want(packet.Publish)
	if err != nil {
		return fmt.Errorf("the legitimate subscriber: %w", err)
	}
	got, ok := packet.ReadPublish(packet.Publish|2, body)
	if !ok || string(got.Payload) != text {
		return fmt.Errorf("message %s, got %q", text, got.Payload)
	}
	if _, err := p.sub.Write(packet.AppendAck(nil, packet.Puback, got.ID)); err != nil {
		return err
	}
	ack, err := p.pub.want(packet.Puback)
	if err != nil {
		return fmt.Errorf("the legitimate publisher: %w", err)
	}
	if packet.ReadID(ack) != id {
		return fmt.Errorf("message %s: acknowledged %x", text, ack)
	}
	return nil
}
