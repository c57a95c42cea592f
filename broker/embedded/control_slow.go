package embedded

import (
	"log/slog"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/embedded/engine"
)

// maxLoggedCommands bounds the commands of a slow request that are logged.
const maxLoggedCommands = 10

// logSlow logs a request to a control API that began at a time, if it was slow.
func (b *Broker) logSlow(r *engine.Request, began time.Time) {
	took := time.Since(began)
	if b.config.SlowCommand <= 0 || took < b.config.SlowCommand {
		return
	}
	changes, _ := control.Changes(r.Topic, r.Payload)
	var commands []slog.Attr
	for _, c := range changes[:min(len(changes), maxLoggedCommands)] {
		commands = append(commands, slog.String(c.Name, objectOf(c)))
	}
	client := r.Client()
	b.log.Warn("a control request was slow", "topic", r.Topic, "changes", len(changes), "commands", commands,
		"duration", took, "username", client.Username, "clientid", client.ClientID)
}

// maxLoggedName bounds the length of a name, in bytes.
const maxLoggedName = 256

// objectOf returns the name of the object that a command changes, "" for none.
func objectOf(c broker.ControlCommand) string {
	for _, member := range []string{"username", "groupname", "rolename", "streamname", "clientid"} {
		if name, ok := c.Members[member].(string); ok {
			return name[:min(len(name), maxLoggedName)]
		}
	}
	return ""
}
