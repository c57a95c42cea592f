package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"signalbox/broker/dynsec"
)

// brokerTopic is where the broker tells about itself, as Mosquitto 2.1 does.
const brokerTopic = "$CONTROL/broker/v1"

// brokerAnswer is one entry of an answer on brokerTopic's response topic.
type brokerAnswer struct {
	Command         string  `json:"command"`
	Data            any     `json:"data,omitempty"`
	Error           string  `json:"error,omitempty"`
	CorrelationData *string `json:"correlationData,omitempty"`
}

type pluginList struct {
	Plugins []plugin `json:"plugins"`
}

// plugin is a part of the broker with a control API.
type plugin struct {
	Name      string   `json:"name"`
	Version   string   `json:"version,omitempty"`
	Endpoints []string `json:"control-endpoints"`
}

type listenerList struct {
	Listeners []listenerRecord `json:"listeners"`
}

// listenerRecord is a listener in Mosquitto's words. BindAddress is absent
// where the listener is open on all interfaces.
type listenerRecord struct {
	ID                 int    `json:"id"`
	Port               int    `json:"port"`
	Protocol           string `json:"protocol"`
	BindAddress        string `json:"bind-address,omitempty"`
	TLS                bool   `json:"tls"`
	RequireCertificate bool   `json:"require-certificate"`
}

// handleBroker does a request on brokerTopic. The envelope is that of dynamic
// security.
func (b *Broker) handleBroker(ctx context.Context, payload []byte) []byte {
	request := dynsec.DecodeRequest(payload)
	answers := []brokerAnswer{}
	for _, c := range request.Commands {
		a := b.doBroker(ctx, c.Name())
		if data, ok := c.CorrelationData(); ok {
			a.CorrelationData = &data
		}
		answers = append(answers, a)
	}
	if f := request.Fault; f != nil {
		answers = append(answers, brokerAnswer{Command: f.Command, Error: f.Error})
	}
	return encodeBroker(answers)
}

func (b *Broker) doBroker(ctx context.Context, command string) brokerAnswer {
	switch strings.ToLower(command) {
	case "listplugins":
		return brokerAnswer{Command: "listPlugins", Data: b.plugins()}
	case "listlisteners":
		return brokerAnswer{Command: "listListeners", Data: b.listenerRecords(ctx)}
	}
	return brokerAnswer{Command: command, Error: "Unknown command"}
}

func (b *Broker) plugins() pluginList {
	return pluginList{Plugins: []plugin{
		{Name: "broker", Version: b.config.Version, Endpoints: []string{brokerTopic}},
		{Name: "dynamic-security", Version: b.config.Version, Endpoints: []string{dynsec.Topic}},
	}}
}

func (b *Broker) listenerRecords(ctx context.Context) listenerList {
	list := listenerList{Listeners: []listenerRecord{}}
	listeners, _ := b.ListListeners(ctx) // never fails
	for _, d := range listeners {
		list.Listeners = append(list.Listeners, listenerRecord{
			ID: d.ID, Port: d.Port, Protocol: d.Protocol, BindAddress: d.BindAddress,
			TLS: d.TLS, RequireCertificate: d.RequireCertificate,
		})
	}
	return list
}

func encodeBroker(answers []brokerAnswer) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.Encode(struct { //nolint:errcheck // a buffer takes it, and there is nothing JSON cannot express
		Responses []brokerAnswer `json:"responses"`
	}{answers})
	return bytes.TrimRight(buf.Bytes(), "\n")
}
