package embedded

import (
	"encoding/json"
	"net"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/engine"
)

// readingCommands are how the names of commands begin that change nothing.
var readingCommands = []string{"get", "list", "inspect", "test", "count", "preview"}

// recordedMembers are the members of commands that are recorded; of commands of dynamic security
// all are, but for passwords. Others may have secrets in any place, such as the configuration of a
// bridge.
var recordedMembers = []string{"username", "clientid", "streamname", "clustername", "bridgeid", "connectionid", "id", "name", "topic", "nodeid", "enable", "active"}

// errNotAudited is the response to a command that is not executed because it cannot be recorded.
const errNotAudited = "Audit log cannot be written"

// audited handles a request between the two parts of its record. handle returns the response,
// nil if there was none in time.
func (b *Broker) audited(r *engine.Request, handle func() []byte) []byte {
	if b.config.ControlAudit == nil {
		return handle()
	}
	all, _ := dynsec.DecodeCommands(r.Payload)
	q, at := changes(r, all)
	if len(q.Commands) == 0 {
		return handle()
	}
	end, err := b.config.ControlAudit(q)
	if err != nil {
		b.log.Warn("a control request was refused, as it cannot be recorded", "topic", r.Topic, "error", err)
		return control.Refuse(r.Payload, errNotAudited)
	}
	answer := handle()
	end(outcomes(answer, at))
	return answer
}

// changes returns the commands of a request that may change something, and their places in it.
func changes(r *engine.Request, all []dynsec.OtherCommand) (q broker.ControlRequest, at []int) {
	client := r.Client()
	q = broker.ControlRequest{Topic: r.Topic, Username: client.Username, ClientID: client.ClientID, Address: host(client.Address)}
	for i, c := range all {
		name := strings.ToLower(c.Name)
		if slices.ContainsFunc(readingCommands, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		q.Commands = append(q.Commands, broker.ControlCommand{Name: c.Name, Members: recorded(r.Topic, c.Args.Members())})
		at = append(at, i)
	}
	return q, at
}

// host returns an address without its port.
func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// recorded returns the members of a command that may be recorded.
func recorded(topic string, members map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range members {
		switch {
		case name == "command" || name == "correlationdata":
		case topic == dynsec.Topic && strings.Contains(name, "password"):
			out[name] = "***"
		case topic == dynsec.Topic:
			out[name] = v
		case slices.Contains(recordedMembers, name) && isScalar(v):
			out[name] = v
		}
	}
	return out
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, json.Number:
		return true
	}
	return false
}

// outcomes returns the error of each response with one of the numbers, "" for none; nil without
// a response.
func outcomes(answer []byte, at []int) []string {
	var a struct {
		Responses []struct {
			Error string `json:"error"`
		} `json:"responses"`
	}
	if answer == nil || json.Unmarshal(answer, &a) != nil {
		return nil
	}
	list := make([]string, len(at))
	for k, i := range at {
		if i >= len(a.Responses) {
			return nil
		}
		list[k] = a.Responses[i].Error
	}
	return list
}
