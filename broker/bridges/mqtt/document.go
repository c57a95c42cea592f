package mqtt

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
	"unicode"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
	"signalbox/broker/mqtt/packet"
)

// document is the configuration of a connection.
type document struct {
	Connection    settings      `json:"connection"`
	Options       retryOptions  `json:"options"`
	TopicMappings []mappingSpec `json:"topicMappings"`

	endpoint dial.Endpoint
	routes   []*route
}

// settings is the member "connection".
type settings struct {
	URL               string               `json:"url"`
	Credentials       *bridges.Credentials `json:"credentials"`
	TLS               *bridges.TLS         `json:"tls"`
	ClientID          string               `json:"clientId"`
	KeepAlive         int                  `json:"keepAlive"`
	CleanStart        bool                 `json:"cleanStart"`
	SessionExpiry     uint32               `json:"sessionExpiry"`
	ProtocolVersion   string               `json:"protocolVersion"`
	Notifications     bool                 `json:"notifications"`
	NotificationTopic string               `json:"notificationTopic"`
	BrokerID          string               `json:"brokerId"`
}

// retryOptions are the options that apply to the client, in milliseconds.
type retryOptions struct {
	Min int64 `json:"retryMinInsertDelay"`
	Max int64 `json:"retryMaxInsertDelay"`
}

// mappingSpec is the configuration of a topic mapping.
type mappingSpec struct {
	Name         string   `json:"name"`
	MQTTTopics   []string `json:"mqttTopics"`
	Direction    string   `json:"direction"`
	QoS          *int     `json:"qos"`
	Retain       *bool    `json:"retain"`
	LocalPrefix  string   `json:"localPrefix"`
	RemotePrefix string   `json:"remotePrefix"`
}

// parseDocument parses the configuration of a connection, and returns all of its problems.
func parseDocument(c *bridges.Connection) (*document, bridges.Problems) {
	d := &document{Connection: settings{KeepAlive: 60, SessionExpiry: 3600, ProtocolVersion: "auto", Notifications: true},
		Options: retryOptions{Min: 500, Max: 30_000}}
	p := bridges.Decode(c.Document, d)
	if len(p) > 0 {
		return nil, p
	}
	d.parseURL(&p)
	d.endpoint.Dial = c.DialContext
	s := &d.Connection
	s.ClientID = cmp.Or(s.ClientID, clientID(c.Owner, c.Name))
	if s.Notifications {
		s.NotificationTopic = cmp.Or(s.NotificationTopic, notificationPrefix+s.ClientID+"/state")
		switch {
		case !broker.ValidTopic(s.NotificationTopic):
			p.Add("connection.notificationTopic", "is not a valid topic")
		case s.NotificationTopic[0] == '$' && !isNotificationTopic(s.NotificationTopic):
			p.Add("connection.notificationTopic", "must not begin with $, but for "+notificationPrefix+" and more")
		}
	} else {
		s.NotificationTopic = ""
	}
	if strings.ContainsFunc(s.ClientID, unicode.IsControl) {
		p.Add("connection.clientId", "must not hold control characters")
	}
	if s.Credentials != nil && s.Credentials.Username == "" && s.Credentials.Password != "" {
		p.Add("connection.credentials.username", "is missing beside the password")
	}
	for i := range d.TopicMappings {
		d.routes = append(d.routes, d.TopicMappings[i].compile(fmt.Sprintf("topicMappings[%d]", i), &p))
	}
	d.checkOverlaps(&p)
	return d, p
}

// notificationPrefix is the prefix of the topics with which brokers report the state of their
// bridges. Other topics with $ are reserved by brokers, some of them for commands.
const notificationPrefix = "$SYS/broker/connection/"

func isNotificationTopic(topic string) bool {
	return strings.HasPrefix(topic, notificationPrefix) && len(topic) > len(notificationPrefix)
}

// parseURL sets the endpoint from the URL.
func (d *document) parseURL(p *bridges.Problems) {
	s := &d.Connection
	ep, err := dial.Parse(s.URL)
	if err != nil {
		p.Add("connection.url", err.Error())
		return
	}
	ep.Settings = dial.SettingNames{CA: "tls.caCertificate", Certificate: "tls.clientCertificate", Key: "tls.clientKey", ServerName: "tls.serverName"}
	switch {
	case ep.UsesTLS():
		t := bridges.TLS{}
		if s.TLS != nil {
			t = *s.TLS
		}
		t.Enabled = true
		ep.SetTLS(t.Config(ep.Host, "connection.tls", p))
	case s.TLS != nil && s.TLS.Enabled:
		p.Add("connection.tls.enabled", "the url says that there is no TLS: it must begin with mqtts:// or wss://")
	}
	s.BrokerID = cmp.Or(s.BrokerID, strings.ToLower(ep.Addr))
	d.endpoint = ep
}

// clientID returns a client id that is the same in every run. Two more characters fit: every
// broker accepts 23 [MQTT-3.1.3-5].
func clientID(owner, connection string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + connection))
	return "signalbox-" + base32.HexEncoding.EncodeToString(sum[:])[:11]
}

// checkOverlaps reports topics that two mappings send or receive in the same direction: each message
// of both would be sent twice.
func (d *document) checkOverlaps(p *bridges.Problems) {
	for j, b := range d.routes {
		for i, a := range d.routes[:j] {
			if a.overlaps(b) {
				p.Add(fmt.Sprintf("topicMappings[%d].mqttTopics", j),
					fmt.Sprintf("overlaps with topicMappings[%d], which sends the same topics in the same direction: messages would be duplicated", i))
			}
		}
	}
}

// timing returns the client's delays and timeouts.
func (d *document) timing() client.Timing {
	keepAlive := time.Duration(d.Connection.KeepAlive) * time.Second
	least := max(time.Duration(d.Options.Min)*time.Millisecond, 100*time.Millisecond)
	return client.Timing{
		Connect: 10 * time.Second, ResumeTimeout: 10 * time.Second, Write: 10 * time.Second,
		MinDelay: least, MaxDelay: max(time.Duration(d.Options.Max)*time.Millisecond, least), Stable: 10 * time.Second,
		Ping: keepAlive / 2, ReadTimeout: keepAlive, Retry: time.Minute, IdleTimeout: time.Second,
	}
}

// sessionOptions returns the client's session options.
func (d *document) sessionOptions() client.SessionOptions {
	s := &d.Connection
	return client.SessionOptions{
		Version:    map[string]byte{"5": packet.V5, "3.1.1": packet.V311}[s.ProtocolVersion],
		CleanStart: s.CleanStart, Expiry: s.SessionExpiry, KeepInFlight: true, StateTopic: s.NotificationTopic,
	}
}
