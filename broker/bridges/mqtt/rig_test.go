package mqtt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mqtt"
	"signalbox/broker/bridges/store"
	"signalbox/broker/brokertest"
	"signalbox/broker/embedded"
	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// node is a broker: an embedded one with bridges, or a Mosquitto.
type node struct {
	name     string
	addr     string
	username string
	password broker.Secret
	embedded *embeddedBroker // nil for Mosquitto
}

// mosquitto starts a Mosquitto.
func mosquitto(t testing.TB, opts ...brokertest.Option) (*node, *brokertest.Server) {
	t.Helper()
	s := brokertest.Mosquitto(t, opts...)
	return &node{name: "M", addr: s.Addr, username: s.AdminUsername, password: s.AdminPassword}, s
}

// embeddedBroker is an embedded broker with its directory.
type embeddedBroker struct {
	*embedded.Broker
	t     testing.TB
	dir   string
	store *store.Store
	stop  func()
}

// plainSealer stores configurations in plain text.
type plainSealer struct{}

func (plainSealer) Seal(plain, _ []byte) []byte             { return append([]byte("x"), plain...) }
func (plainSealer) Unseal(sealed, _ []byte) ([]byte, error) { return sealed[1:], nil }

// signalbox starts an embedded broker.
func signalbox(t testing.TB, name string) *node {
	t.Helper()
	b := &embeddedBroker{t: t, dir: t.TempDir()}
	n := &node{name: name, username: "admin", password: "admin-password", embedded: b}
	b.start(n, "127.0.0.1:0")
	var acls []broker.ACL
	for _, kind := range []broker.ACLType{broker.PublishClientSend, broker.PublishClientReceive, broker.SubscribePattern} {
		acls = append(acls, broker.ACL{ACLType: kind, Topic: "#", Allow: true}, broker.ACL{ACLType: kind, Topic: "$SYS/#", Allow: true})
	}
	if err := b.CreateRole(t.Context(), broker.RoleSpec{RoleName: "all", ACLs: acls}); err != nil {
		t.Fatal(err)
	}
	n.username, n.password = "user", "user-password"
	if err := b.CreateClient(t.Context(), broker.ClientSpec{Username: n.username, Password: &n.password,
		Roles: []broker.RoleRef{{RoleName: "all", Priority: broker.NoPriority}}}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *embeddedBroker) start(n *node, listen string) {
	t := b.t
	log := slog.New(slog.NewTextHandler(logger{t, n.name}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := store.Open(t.Context(), filepath.Join(b.dir, "bridges.db"), store.Options{Durability: storage.Process, Seal: plainSealer{}, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	c := embedded.DefaultConfig()
	c.Listen, c.AdminPassword, c.PasswordIterations = listen, broker.Secret("admin-password"), 1000
	c.Bridges = bridges.NewHost(s, []bridges.Kind{mqtt.New()}, log)
	if b.Broker, err = embedded.New(t.Context(), c, b.dir, log); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.store, n.addr = s, b.Addrs()[0]
	var once sync.Once
	b.stop = func() {
		once.Do(func() {
			ctx := context.WithoutCancel(t.Context())
			if err := b.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := s.Close(ctx); err != nil {
				t.Errorf("close the store: %v", err)
			}
		})
	}
	t.Cleanup(b.stop)
}

type logger struct {
	t    testing.TB
	name string
}

func (l logger) Write(p []byte) (int, error) {
	fmt.Fprintf(l.t.Output(), "%s: %s", l.name, p)
	return len(p), nil
}

// link is a connection of a bridge.
type link struct {
	to         *node
	addr       string // "" for the node's address
	connection map[string]any
	options    map[string]any
	mappings   []map[string]any
	disabled   bool
}

// all is a link for all topics in a direction.
func all(to *node, direction string) link {
	return link{to: to, mappings: []map[string]any{{"mqttTopics": []string{"#"}, "direction": direction}}}
}

// bridge configures the bridge of an embedded broker, and waits for its connections.
func (n *node) bridge(t testing.TB, links ...link) {
	t.Helper()
	n.configure(t, links...)
	n.connected(t)
}

// configure configures the bridge of an embedded broker and does not wait.
func (n *node) configure(t testing.TB, links ...link) {
	t.Helper()
	if err := n.embedded.SetBridgeConfig(t.Context(), "mqtt-bridge", document(t, links...)); err != nil {
		e, _ := err.(*broker.Error) //nolint:errorlint // for the message only
		t.Fatalf("SetBridgeConfig() = %v %+v", err, e)
	}
}

func document(t testing.TB, links ...link) json.RawMessage {
	t.Helper()
	connections := []map[string]any{}
	for i, l := range links {
		addr := l.addr
		if addr == "" {
			addr = l.to.addr
		}
		connection := map[string]any{
			"url": "mqtt://" + addr, "brokerId": l.to.name,
			"credentials": map[string]any{"username": l.to.username, "password": string(l.to.password)},
		}
		maps.Copy(connection, l.connection)
		for j, m := range l.mappings {
			if m["name"] == nil {
				m["name"] = fmt.Sprint("t", j)
			}
		}
		options := map[string]any{"retryMinInsertDelay": 20, "retryMaxInsertDelay": 200}
		maps.Copy(options, l.options)
		connections = append(connections, map[string]any{"name": fmt.Sprint("c", i), "enabled": !l.disabled, "connection": connection, "options": options, "topicMappings": l.mappings})
	}
	b, err := json.Marshal(map[string]any{"connections": connections})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// connected waits until all connections of an embedded broker are established.
func (n *node) connected(t testing.TB) {
	t.Helper()
	var list []broker.BridgeStatus
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %+v", n.name, list)
		}
	})
	brokertest.WaitFor(t, "bridges of "+n.name+" are connected", func() bool {
		list = n.status(t)
		return len(list) > 0 && !slices.ContainsFunc(list, func(s broker.BridgeStatus) bool { return !s.IsConnected })
	})
}

func (n *node) status(t testing.TB) []broker.BridgeStatus {
	t.Helper()
	list, err := n.embedded.GetBridgeStatus(t.Context(), "mqtt-bridge")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// client is a client of a broker, with MQTT 5.
type client struct {
	*paho.Client
	t    testing.TB
	mu   sync.Mutex
	got  []*paho.Publish
	over sync.Once
}

// join connects a client that subscribes to filters with QoS 2.
func join(t testing.TB, n *node, filters ...string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t}
	c.Client = paho.NewClient(paho.ClientConfig{Conn: conn, PacketTimeout: suite.HangLimit, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(r paho.PublishReceived) (bool, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.got = append(c.got, r.Packet)
			return true, nil
		},
	}})
	connect := &paho.Connect{KeepAlive: 60, CleanStart: true, UsernameFlag: true, PasswordFlag: true, Username: n.username, Password: []byte(n.password)}
	if _, err := c.Connect(t.Context(), connect); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.leave)
	for _, f := range filters {
		if _, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: f, QoS: 2, RetainAsPublished: true}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *client) leave() {
	c.over.Do(func() {
		c.Disconnect(&paho.Disconnect{}) //nolint:errcheck // it ends in any case
		<-c.Done()
	})
}

func (c *client) send(topic, payload string, qos byte, retain bool) {
	c.t.Helper()
	c.publish(&paho.Publish{Topic: topic, Payload: []byte(payload), QoS: qos, Retain: retain})
}

func (c *client) publish(p *paho.Publish) {
	c.t.Helper()
	if _, err := c.Publish(context.Background(), p); err != nil {
		c.t.Fatalf("publish: %v", err)
	}
}

// list returns the received messages, without notifications.
func (c *client) list() []*paho.Publish {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.got), func(p *paho.Publish) bool { return strings.HasPrefix(p.Topic, "$SYS/") })
}

// texts returns topic, payload, QoS and RETAIN of the received messages, sorted.
func (c *client) texts() (list []string) {
	for _, p := range c.list() {
		text := fmt.Sprintf("%s=%s/%d", p.Topic, p.Payload, p.QoS)
		if p.Retain {
			text += "r"
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// want waits until exactly these messages have arrived, in any order.
func (c *client) want(what string, texts ...string) {
	c.t.Helper()
	slices.Sort(texts)
	brokertest.WaitFor(c.t, what+": "+fmt.Sprint(len(texts))+" messages", func() bool { return len(c.list()) >= len(texts) })
	if got := c.texts(); !slices.Equal(got, texts) {
		c.t.Errorf("%s:\n got %q\nwant %q", what, got, texts)
	}
}

// cuttableLink is a link for all topics in a direction, through a proxy that can be cut.
func cuttableLink(t testing.TB, to *node, direction string) (link, *brokertest.Proxy) {
	t.Helper()
	proxy := brokertest.NewProxy(t, to.addr)
	l := all(to, direction)
	l.addr = proxy.Addr
	return l, proxy
}

// disconnectLink disconnects the only connection of an embedded broker permanently.
func disconnectLink(t testing.TB, n *node, proxy *brokertest.Proxy) {
	t.Helper()
	proxy.Refuse()
	proxy.Cut()
	brokertest.WaitFor(t, "the link is seen to be down", func() bool { return !n.status(t)[0].IsConnected })
}
