package console_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/listen"
	"signalbox/db"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

type object = map[string]any

// naming returns the name of an object from a short one.
type naming func(name string) string

func plain(name string) string { return name }

// hostile is markup, changes the direction of text and cannot be broken into lines. It can
// be in a topic.
const hostile = markup + "\u202e" + "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

const markup = `"><img src=x onerror=alert(1)>`

func hostileName(name string) string { return name + hostile }

// secret is the password of every account of a plant.
const secret = "correct horse battery"

// plant is a service with one or more of each object: its broker is a node of a cluster,
// devices have sessions and certificates, and a bridge has dead letters.
type plant struct {
	*apitest.API
	t    *testing.T
	name naming
	ca   *brokertest.CA // of its listener with TLS, and of devices
	// Further brokers, by their ids: one that is connected and one that is not.
	others map[string]string
}

func newPlant(t *testing.T, name naming) *plant {
	t.Helper()
	firstAddress, secondAddress := brokertest.FreePort(t, "127.0.0.1"), brokertest.FreePort(t, "127.0.0.1")
	ca := brokertest.NewCA(t)
	withTLS := func(c *appliance.Config) {
		file := func(name string, content []byte) string { return write(t, filepath.Join(c.DataDir, name), content) }
		pair := ca.Issue(t, brokertest.CertOptions{Subject: name("broker"), Names: []string{"127.0.0.1"}})
		c.Broker.Listeners = append(c.Broker.Listeners, listen.Config{Protocol: "mqtts", Address: "127.0.0.1:0",
			CertFile: file("cert.pem", pair.Cert), KeyFile: file("key.pem", pair.Key), CAFile: file("ca.pem", ca.PEM)})
		c.Backup.Directory = filepath.Join(t.TempDir(), "backups")
	}
	p, second := &plant{newNode(t, firstAddress, withTLS), t, name, ca, map[string]string{}}, newNode(t, secondAddress)
	far := p.addNode("far", second)
	p.addBroker("unreachable", "127.0.0.1:1")
	p.Root.Put(p.At("/topictree/ttl"), object{"ttl_sec": 3600}).Want(204) // its topics stay, however slow the machine is
	p.formCluster(clusterNode(t, 1, p.Embedded, firstAddress), clusterNode(t, 2, far, secondAddress))
	p.addPeople()
	p.addAccess()
	p.connectDevices()
	p.addFlow()
	p.Root.Post("/api/backups", nil).Want(200)
	return p
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newNode starts a service whose broker can be a node, with this address.
func newNode(t *testing.T, address string, options ...apitest.Option) *apitest.API {
	t.Helper()
	return apitest.NewLogged(t, slog.New(slog.NewTextHandler(io.Discard, nil)), append(options, func(c *appliance.Config) {
		c.Broker.AdminPassword, c.Broker.Listen = secret, brokertest.FreePort(t, "127.0.0.1")
		c.Cluster.Listen, c.Cluster.ElectionTimeout = address, 30*time.Second // a busy machine keeps its leader
	})...)
}

func (p *plant) addBroker(name, address string) (id string) {
	p.t.Helper()
	var created struct{ ID string }
	p.Root.Post("/api/projects/"+p.Project+"/brokers", object{"name": p.name(name), "url": "mqtt://" + address, "username": "admin",
		"password": secret, "description": p.name("behind the gate")}).Want(200).Decode(&created)
	p.others[created.ID] = name
	return created.ID
}

// addNode adds the broker of another service and waits until it is known that it can be a node.
func (p *plant) addNode(name string, service *apitest.API) (id string) {
	p.t.Helper()
	id = p.addBroker(name, service.MQTT)
	suite.WaitFor(p.t, "the broker "+name+" can be a node", func() bool {
		var record struct{ Capabilities []string }
		p.Root.Get(p.BrokerAt(id, "")).Want(200).Decode(&record)
		return slices.Contains(record.Capabilities, "cluster")
	})
	return id
}

// addMosquitto adds a Mosquitto to a service and waits until it is connected.
func addMosquitto(t *testing.T, api *apitest.API, server *brokertest.Server) (id string) {
	t.Helper()
	var added struct{ ID string }
	api.Root.Post("/api/projects/"+api.Project+"/brokers", object{"name": "mosquitto", "url": server.URL,
		"username": server.AdminUsername, "password": string(server.AdminPassword)}).Want(200).Decode(&added)
	suite.WaitFor(t, "the broker is connected", func() bool {
		return strings.Contains(string(api.Root.Get(api.BrokerAt(added.ID, "")).Want(200).Body), `"connected":true`)
	})
	return added.ID
}

func clusterNode(t *testing.T, number int, broker, address string) object {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return object{"broker_id": broker, "url": "mqtt://x", "nodeid": number, "name": fmt.Sprint("n", number), "address": host, "port": n}
}

func (p *plant) formCluster(nodes ...object) {
	p.t.Helper()
	clusters := "/api/projects/" + p.Project + "/clusters"
	var created struct{ ID string }
	p.Root.Post(clusters, object{"clustername": p.name("site"), "syncmode": "dynsec", "nodes": nodes}).Want(200).Decode(&created)
	suite.WaitFor(p.t, "the cluster is active", func() bool {
		var c struct {
			State string
			Nodes []object
		}
		p.Root.Get(clusters + "/" + created.ID).Want(200).Decode(&c)
		return c.State == "active" && len(c.Nodes) == len(nodes)
	})
}

// addPeople adds users, an API token and one that has expired, which no request can create.
func (p *plant) addPeople() {
	project := "/api/projects/" + p.Project
	var ada struct{ ID string }
	p.Root.Post("/api/users", object{"email": "ada@example.com", "firstname": p.name("Ada"), "lastname": p.name("L"), "password": secret}).Want(200).Decode(&ada)
	p.Root.Put("/api/users/admins?email=ada@example.com", nil).Want(204)
	p.Root.Put(project+"/members/"+ada.ID, object{"role": "editor"}).Want(204)
	p.LogIn("ada@example.com", secret).Post(project+"/tokens", object{"name": p.name("dashboard"), "role": "viewer", "type": "unrestricted", "brokers": []string{}}).Want(200)
	old := db.Token{ID: "old", ProjectID: p.Project, OwnerID: ada.ID, Issuer: p.name("Ada"), Name: p.name("old"), Hash: "old", Role: "viewer", Type: "unrestricted",
		IssuedAt: time.UnixMilli(1), ValidUntil: time.UnixMilli(2)}
	if err := p.Handlers.DB.CreateToken(p.t.Context(), old); err != nil {
		p.t.Error(err)
	}
}

// addAccess adds what decides on the rights of devices.
func (p *plant) addAccess() {
	at, name := p.At, p.name
	rule := func(kind, topic string, priority int, allow bool) object {
		return object{"acltype": kind, "topic": topic, "priority": priority, "allow": allow}
	}
	p.Root.Post(at("/roles"), object{"rolename": name("pump"), "textname": name("Pumps"), "acls": []object{
		rule("publishClientSend", p.topic("locked"), 2, false), rule("publishClientSend", "#", 1, true),
		rule("publishClientReceive", "#", 0, true), rule("subscribePattern", "#", 0, true), rule("unsubscribePattern", "#", 0, true)}}).Want(204)
	p.Root.Post(at("/groups"), object{"groupname": name("line"), "textname": name("Line 1"), "roles": []object{{"rolename": name("pump")}}}).Want(204)
	p.Root.Post(at("/clients"), object{"username": name("pump-7"), "password": secret, "textname": name("Pump 7"), "groups": []object{{"groupname": name("line")}},
		"roles": []object{{"rolename": name("pump")}}}).Want(204)
	p.Root.Post(at("/groups"), object{"groupname": name("guests")}).Want(204)
	p.Root.Put(at("/groups/anonymous"), object{"groupname": name("guests")}).Want(204)
	p.Root.Post(at("/bans"), object{"kind": "username", "value": name("thief"), "reason": name("was stolen")}).Want(204)
}

func (p *plant) topic(name string) string { return p.name("plant") + "/" + p.name(name) }

// connectDevices connects one device with a Will, that is denied to publish, and leaves a
// session of another one with a message in its queue.
func (p *plant) connectDevices() {
	p.t.Helper()
	away := p.connect("pump-8", "tcp://"+p.MQTT, func(*mqtt.ClientOptions) {})
	p.await(away.Subscribe(p.topic("state"), 1, nil))
	away.Disconnect(0)
	online := p.connect("pump-7", strings.Replace(p.Listeners[1], "mqtts:", "ssl:", 1), func(o *mqtt.ClientOptions) {
		o.SetWill(p.topic("will"), p.name("lost"), 1, false).SetTLSConfig(p.clientTLS())
	})
	p.t.Cleanup(func() { online.Disconnect(0) })
	p.await(online.Subscribe(p.topic("cmd")+"/#", 1, nil))
	p.Root.Post(p.At("/jobs"), object{"action": "forgetSession", "ids": []string{p.name("pump-6")}}).Want(200) // which does not exist
	p.await(online.Publish(p.topic("locked"), 1, false, "x"))
	p.await(online.Publish(p.topic("state"), 1, true, `{"name": "`+p.name("pump 7")+`", "speed": 1480}`))
}

// clientTLS trusts the broker, and has a certificate of its own.
func (p *plant) clientTLS() *tls.Config {
	p.t.Helper()
	pair := p.ca.Issue(p.t, brokertest.CertOptions{Subject: p.name("pump-7")})
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{certificate}}
	c.RootCAs.AppendCertsFromPEM(p.ca.PEM)
	return c
}

func (p *plant) connect(id, address string, change func(o *mqtt.ClientOptions)) mqtt.Client {
	p.t.Helper()
	o := mqtt.NewClientOptions().AddBroker(address).SetClientID(p.name(id)).SetUsername(p.name("pump-7")).SetPassword(secret).
		SetProtocolVersion(4).SetCleanSession(false).SetAutoReconnect(false).SetConnectTimeout(suite.HangLimit).SetWriteTimeout(suite.HangLimit)
	change(o)
	c := mqtt.NewClient(o)
	p.await(c.Connect())
	return c
}

func (p *plant) await(token mqtt.Token) {
	p.t.Helper()
	if !token.WaitTimeout(suite.HangLimit) || token.Error() != nil {
		p.t.Fatal("the broker: ", token.Error())
	}
}

// addFlow adds a stream with a stored message, and a bridge to a server that refuses
// every message.
func (p *plant) addFlow() {
	p.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, p.name("no such table"), http.StatusUnprocessableEntity)
	}))
	p.t.Cleanup(server.Close)
	bridge := p.At("/bridges/http-bridge")
	p.Root.Put(bridge+"/config", object{"version": "v1", "connections": []object{{"name": p.name("history"), "connection": object{"url": server.URL},
		"topicMappings": []object{{"name": p.name("all"), "mqttTopics": []string{"in/#"}, "body": "${payload}", "contentType": "text/plain"}}}}}).Want(204)
	p.Root.Post(p.At("/streams"), object{"streamname": p.name("states"), "textdescription": p.name("of the plant"), "sourceTopic": p.topic("state"), "targetTopic": p.topic("average"),
		"persist": true, "active": true}).Want(204)
	p.Root.Post(p.At("/messages"), object{"topic": p.topic("state"), "payload": p.name("on"), "qos": 1}).Want(204)
	for _, payload := range []string{"refused", "refused, too"} {
		p.Root.Post(p.At("/messages"), object{"topic": "in/x", "payload": p.name(payload), "qos": 1}).Want(204)
	}
	suite.WaitFor(p.t, "dead letters", func() bool {
		var status []struct{ Stats struct{ DeadLetters int } }
		p.Root.Get(bridge + "/status").Want(200).Decode(&status)
		return len(status) == 1 && status[0].Stats.DeadLetters == 2
	})
}
