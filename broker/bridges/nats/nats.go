// Package nats is the kind of bridge that publishes messages to NATS servers: to current
// subscribers or, with JetStream, to streams that store them.
//
// DESIGN.md describes when a message counts as delivered, and how a topic becomes a subject. The
// package must not import the stores of bridges or another kind.
package nats

import (
	_ "embed"
	"net/url"
	"strconv"

	"github.com/nats-io/nkeys"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
)

var (
	//go:embed connection.json
	connectionSchema []byte
	//go:embed options.json
	optionsSchema []byte
	//go:embed mapping.json
	mappingSchema []byte
)

// Kind is the nats-bridge.
type Kind struct{}

// ID is "nats-bridge".
func (Kind) ID() string { return "nats-bridge" }

// Schema returns the configuration schema that is specific to NATS.
func (Kind) Schema() bridges.Schema {
	return bridges.Schema{
		Title:       "NATS",
		Description: "Publishes messages to NATS servers, with JetStream so that they are kept there.",
		Connection:  connectionSchema,
		Options:     optionsSchema,
		Mapping:     mappingSchema,
		Records:     true,
	}
}

// document is the configuration of a connection.
type document struct {
	Connection    server           `json:"connection"`
	Options       options          `json:"options"`
	TopicMappings []mappingOptions `json:"topicMappings"`
}

type server struct {
	Servers     []string             `json:"servers"`
	ClientName  string               `json:"clientName"`
	Credentials *bridges.Credentials `json:"credentials"`
	Token       string               `json:"token"`
	NkeySeed    string               `json:"nkeySeed"`
	TLS         bridges.TLS          `json:"tls"`
}

type options struct {
	JetStream bool `json:"jetStream"`
}

type mappingOptions struct {
	Name          string  `json:"name"`
	Target        string  `json:"target"`
	SchemaMapping *string `json:"schemaMapping"`
	Value         *string `json:"value"`
	MQTTHeaders   *bool   `json:"mqttHeaders"`
}

// Compile creates a connector from a connection's configuration.
func (Kind) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	var d document
	problems := bridges.Decode(c.Document, &d)
	if len(problems) > 0 {
		return nil, problems
	}
	k := &connector{dial: c.DialContext, jetStream: d.Options.JetStream, trial: c.Trial, plans: make(map[string]*plan), changed: make(chan struct{}, 1)}
	k.options = clientOptions(d.Connection, &problems)
	for i, m := range d.TopicMappings {
		place := "topicMappings[" + strconv.Itoa(i) + "]."
		k.plans[m.Name] = newPlan(m, c.Records[m.Name], place, &problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return k, nil
}

// checkServers validates the addresses. It reports whether one of them requires TLS.
func checkServers(servers []string, p *bridges.Problems) (secure bool) {
	for i, s := range servers {
		place := "connection.servers[" + strconv.Itoa(i) + "]"
		u, err := url.Parse(s)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
			p.Add(place, "must be an address as in nats://host:4222 or tls://host:4222")
		case u.User != nil:
			p.Add(place, "must not hold credentials: they have members of their own")
		case u.Path != "" || u.RawQuery != "" || u.Fragment != "":
			p.Add(place, "must have nothing behind the port")
		case u.Scheme == "tls":
			secure = true
		}
	}
	return secure
}

// signer returns the public key of a seed and the function that signs with its private key.
func signer(seed string) (public string, sign func(nonce []byte) ([]byte, error), err error) {
	key, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", nil, err
	}
	if public, err = key.PublicKey(); err != nil {
		return "", nil, err
	}
	return public, key.Sign, nil
}

// newPlan compiles a topic mapping.
func newPlan(m mappingOptions, record *mapping.Mapping, place string, p *bridges.Problems) *plan {
	l := &plan{headers: m.MQTTHeaders == nil || *m.MQTTHeaders}
	if m.SchemaMapping != nil {
		l.value.Record = record
	}
	var err error
	if m.Target != "" {
		if l.subject, err = mapping.ParseTemplate(m.Target, mapping.EscapeNone); err != nil {
			p.Add(place+"target", err.Error())
		} else if l.subject.Constant() {
			checkConstant(l.subject, place+"target", p)
		}
	}
	if m.Value == nil {
		return l
	}
	if m.SchemaMapping != nil {
		p.Add(place+"value", "must be left out where there is a schemaMapping")
	}
	if l.value.Template, err = mapping.ParseTemplate(*m.Value, mapping.EscapeNone); err != nil {
		p.Add(place+"value", err.Error())
	}
	return l
}
