package audit

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Change is what is asked for, as it is recorded: the query and the body of a request or the
// arguments of a command, the members that it changes as they were before, and why it failed.
// Secrets are masked.
type Change struct {
	Parameters map[string]any `json:"parameters,omitempty"`
	Before     map[string]any `json:"before,omitempty"`
	After      map[string]any `json:"after,omitempty"`
	Error      string         `json:"error,omitempty"`
}

// maxChange bounds a change in bytes.
const maxChange = 16 << 10

// maxText bounds a text in characters.
const maxText = 1000

// Shorten bounds the length of a text.
func Shorten(s string) string {
	if utf8.RuneCountInString(s) <= maxText {
		return s
	}
	return string([]rune(s)[:maxText]) + "…"
}

// Mask replaces a secret.
const Mask = "***"

// Encode returns the change as JSON, nil if there is none. What is too long is left out, the
// state before first.
func (c Change) Encode() json.RawMessage {
	for range 3 {
		if c.Parameters == nil && c.Before == nil && c.After == nil && c.Error == "" {
			return nil
		}
		text, err := json.Marshal(c)
		if err == nil && len(text) <= maxChange {
			return text
		}
		if c.Before != nil {
			c.Before = nil
		} else {
			c.After = map[string]any{"omitted": "the change is too long for the audit log"}
		}
	}
	return nil
}

// objectNames are the members that name an object, the most precise ones first.
var objectNames = []string{"username", "groupname", "rolename", "streamname", "clientid", "clientId", "email", "value", "topic", "name", "clustername", "filter", "bridgeid"}

// NameOf returns the name of the object of an event. That of an object of the service, which the
// event has the id of, is the one in its change; without one it is the id.
func NameOf(object string, change json.RawMessage) string {
	if object != "" && uuid.Validate(object) != nil {
		return object
	}
	type names struct{ Name, Email, ClusterName string }
	var c struct{ Before, After names }
	if json.Unmarshal(change, &c) != nil {
		return object
	}
	name := cmp.Or(c.After.Name, c.Before.Name, c.After.ClusterName, c.After.Email, c.Before.Email)
	if name == Mask { // such as the address of a log-in
		return object
	}
	return cmp.Or(name, object)
}

// ObjectOf returns the name of the object of a change, "" if it has none.
func ObjectOf(from ...map[string]any) string {
	for _, members := range from {
		for _, name := range objectNames {
			if s, ok := members[name].(string); ok && s != "" && s != Mask {
				return Shorten(s)
			}
		}
	}
	return ""
}
