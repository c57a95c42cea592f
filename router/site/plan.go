package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Action is what a step does.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	Keep   Action = "keep" // what a file lacks and is not deleted
)

// Step is one change. Changes of one phase do not depend on each other.
type Step struct {
	Action  Action   `json:"action"`
	Project string   `json:"project"`
	Broker  string   `json:"broker,omitempty"`
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Changes []string `json:"changes,omitempty"` // the members that change
	Reason  string   `json:"reason,omitempty"`  // of a Keep, and of one of two steps that change an object

	phase phase
	do    func(ctx context.Context) error
	at    place
}

// place is where the object of a step is, whatever names lead to it: an object of the same name in
// another service, or at another broker, was not created with it.
type place struct {
	project string // id, which no other service has
	url     string // of the broker; "" for that of the service itself
}

// key identifies the object of a step in the record of what was created.
func (s Step) key() string {
	return strings.Join([]string{s.Project, s.Broker, s.Kind, s.Name, s.at.project, s.at.url}, "\x1f")
}

// String returns the step as a line.
func (s Step) String() string {
	text := fmt.Sprintf("%s %s %s", s.Action, s.Kind, s.Name)
	if place := strings.TrimSuffix(s.Project+"/"+s.Broker, "/"); s.Kind != "project" {
		text += " (" + place + ")"
	}
	if len(s.Changes) > 0 {
		text += ": " + strings.Join(s.Changes, ", ")
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// Options select what a plan contains.
type Options struct {
	Secrets Secrets
	// Prune deletes objects that the file lacks, of the kinds that it has.
	Prune bool
	// Created limits Prune to what an earlier Apply created; nil does not.
	Created *Created
	// Only compares access control alone.
	Only bool
	// DryRun is a plan that is not applied: it needs no secrets.
	DryRun bool
}

// prunes reports whether the object of a step is deleted.
func (o Options) prunes(s Step) bool {
	return o.Prune && (o.Created == nil || o.Created.has(s))
}

// Created is the record of what was created from a file.
type Created struct{ keys map[string]bool }

// recordVersion is the version of the record. Each entry is a list: project, broker, kind and name,
// the id of the project, and the URL of a broker outside of the service.
const recordVersion = 2

// NewCreated returns an empty record.
func NewCreated() *Created { return &Created{keys: map[string]bool{}} }

// Empty reports whether nothing was created.
func (c *Created) Empty() bool { return len(c.keys) == 0 }

func (c *Created) has(s Step) bool { return c.keys[s.key()] }

// Note records a step that was done.
func (c *Created) Note(s Step) {
	switch s.Action {
	case Create:
		c.keys[s.key()] = true
	case Delete:
		delete(c.keys, s.key())
	}
}

// MarshalJSON writes the record as a list.
func (c *Created) MarshalJSON() ([]byte, error) {
	list := [][]string{}
	for _, key := range sorted(c.keys) {
		list = append(list, strings.Split(key, "\x1f"))
	}
	return json.Marshal(map[string]any{"version": recordVersion, "created": list})
}

// UnmarshalJSON reads the record.
func (c *Created) UnmarshalJSON(b []byte) error {
	var file struct {
		Version int
		Created [][]string
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return err
	}
	if file.Version != recordVersion {
		return fmt.Errorf("the record of what was created is of version %d, which does not name the service, and not of version %d: move it away; what it names is then no longer deleted by --prune", file.Version, recordVersion)
	}
	c.keys = map[string]bool{}
	for _, parts := range file.Created {
		c.keys[strings.Join(parts, "\x1f")] = true
	}
	return nil
}

// body is the body of a change, with the names of the members that differ.
type body struct {
	fields  map[string]any
	changes []string
}

// newBody identifies the object of a change.
func newBody(member, name string) *body { return &body{fields: map[string]any{member: name}} }

// set adds a member if a wanted value differs from the present one. A wanted nil is not
// managed.
func set[T any](b *body, member string, want *T, have T) {
	if want != nil && !reflect.DeepEqual(*want, have) {
		b.fields[member], b.changes = *want, append(b.changes, member)
	}
}

// value returns what a pointer refers to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// sameJSON reports whether two values have the same JSON, regardless of the order of members.
func sameJSON(a, b any) bool {
	return bytes.Equal(canonical(a), canonical(b))
}

func canonical(v any) []byte {
	text := must(json.Marshal(v))
	again, err := decoded(text)
	if err != nil {
		return text
	}
	return must(json.Marshal(again))
}
