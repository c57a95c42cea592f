package appliance

import (
	"context"
	"encoding/json"

	"signalbox/db"
)

// switchedOff returns all definitions, whose streams are not active and whose connections are not enabled.
func (d *definitions) switchedOff(ctx context.Context) (all []db.Definition, err error) {
	rows, err := d.db.AllDefinitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		document, err := d.open(row)
		if err == nil {
			document, err = inactive(row.Kind, document)
		}
		if err != nil { // it cannot run either
			d.log.Warn("a definition cannot be switched off", "kind", string(row.Kind), "broker", row.BrokerID, "name", row.Name, "error", err)
			continue
		}
		all = append(all, d.newDefinition(row.Kind, row.BrokerID, row.Name, document))
	}
	return all, nil
}

// inactive returns a document whose stream is not active, or whose connections are not enabled.
func inactive(kind db.DefinitionKind, document []byte) ([]byte, error) {
	if kind == db.StreamDefinition {
		return withMember(document, "active", false)
	}
	var bridge struct {
		Connections []json.RawMessage `json:"connections"`
	}
	if err := json.Unmarshal(document, &bridge); err != nil {
		return nil, err
	}
	for i, c := range bridge.Connections {
		changed, err := withMember(c, "enabled", false)
		if err != nil {
			return nil, err
		}
		bridge.Connections[i] = changed
	}
	if bridge.Connections == nil {
		return document, nil
	}
	return withMember(document, "connections", bridge.Connections)
}

// withMember returns a JSON object with another value of a member.
func withMember(object []byte, name string, value any) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	members[name] = text
	return json.Marshal(members)
}
