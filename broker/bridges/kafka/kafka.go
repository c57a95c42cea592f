// Package kafka is the kind of bridge that produces messages to Apache Kafka and compatible
// systems.
//
// DESIGN.md describes how the order of messages is preserved, and which duplicates are possible.
// The package must not import the stores of bridges or another kind.
package kafka

import (
	_ "embed"
	"strconv"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
)

var (
	//go:embed connection.json
	connectionSchema []byte
	//go:embed options.json
	optionsSchema []byte
	//go:embed mapping.json
	mappingSchema []byte
)

// Kind is the kafka-bridge.
type Kind struct{}

// ID is "kafka-bridge".
func (Kind) ID() string { return "kafka-bridge" }

// Schema returns the configuration schema that is specific to Kafka.
func (Kind) Schema() bridges.Schema {
	return bridges.Schema{
		Title:       "Apache Kafka",
		Description: "Produces messages to the topics of a Kafka cluster.",
		Connection:  connectionSchema,
		Options:     optionsSchema,
		Mapping:     mappingSchema,
		Records:     true,
	}
}

// document is the configuration of a connection.
type document struct {
	Connection    cluster          `json:"connection"`
	Options       options          `json:"options"`
	TopicMappings []mappingOptions `json:"topicMappings"`
}

type cluster struct {
	Brokers       []string             `json:"brokers"`
	ClientID      string               `json:"clientId"`
	Credentials   *bridges.Credentials `json:"credentials"`
	SASLMechanism string               `json:"saslMechanism"`
	TLS           bridges.TLS          `json:"tls"`
}

type options struct {
	Acks            string `json:"acks"`
	Idempotent      *bool  `json:"idempotent"`
	Compression     string `json:"compression"`
	MaxMessageBytes int32  `json:"maxMessageBytes"`
	CreateTopics    bool   `json:"createTopics"`
}

type mappingOptions struct {
	Name          string  `json:"name"`
	Target        string  `json:"target"`
	Key           *string `json:"key"`
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
	k := &connector{dial: c.DialContext, hasCredentials: d.Connection.Credentials != nil, trial: c.Trial, plans: make(map[string]*plan), changed: make(chan struct{}, 1), maxBytes: defaultMaxBatch}
	if d.Options.MaxMessageBytes > 0 {
		k.maxBytes = d.Options.MaxMessageBytes
	}
	k.tls = d.Connection.TLS.Config("", "connection.tls", &problems)
	k.options = append(clientOptions(d.Connection, &problems), d.Options.client(k.maxBytes, &problems)...)
	for i, m := range d.TopicMappings {
		place := "topicMappings[" + strconv.Itoa(i) + "]."
		k.plans[m.Name] = newPlan(m, c.Records[m.Name], place, &problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return k, nil
}

// newPlan compiles a topic mapping.
func newPlan(m mappingOptions, record *mapping.Mapping, place string, p *bridges.Problems) *plan {
	l := &plan{headers: m.MQTTHeaders == nil || *m.MQTTHeaders}
	parse := func(text, name string) *mapping.Template {
		t, err := mapping.ParseTemplate(text, mapping.EscapeNone)
		if err != nil {
			p.Add(place+name, err.Error())
		}
		return t
	}
	target, key := m.Target, "${topic}"
	if target == "" {
		target = "${topic}"
	}
	if m.Key != nil {
		key = *m.Key
	}
	if l.topic = parse(target, "target"); l.topic != nil && l.topic.Constant() {
		name, err := l.topicOf(&mapping.Message{Message: &messaging.Message{}})
		if err != nil {
			p.Add(place+"target", err.Error())
		}
		l.constant = name
	}
	l.key = parse(key, "key")
	switch {
	case m.Value != nil && m.SchemaMapping != nil:
		p.Add(place+"value", "must be left out where there is a schemaMapping")
	case m.Value != nil:
		l.value.Template = parse(*m.Value, "value")
	case m.SchemaMapping != nil:
		l.value.Record = record
	}
	return l
}
