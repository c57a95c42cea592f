package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"signalbox/broker"
)

// ErrLockOut is a plan that would take the rights to manage a broker from the account with
// which the service manages it.
var ErrLockOut = errors.New("the file would lock the service out of the broker")

// declaresAccess reports whether a file manages any of the access control of a broker.
func (b *Broker) declaresAccess() bool {
	return b.DefaultACL != nil || b.AnonymousGroup != nil || b.Roles != nil || b.Groups != nil || b.Clients != nil
}

// access compares the access control of a broker.
func (c *comparison) access(ctx context.Context, p project, m managed, b Broker) error {
	if !b.declaresAccess() {
		return nil
	}
	have, err := readAccess(ctx, c.api, m.path)
	if err != nil {
		return err
	}
	manager := ""
	if m.Type != onPremise {
		manager = value(m.Username)
	}
	want := have.wanted(&b, c.pruner(p, b, have, m.Type != onPremise, manager))
	if err := want.check(&b); err != nil {
		return err
	}
	if want.anonymous == "" && hasKey(want.groups, have.anonymous) {
		return fmt.Errorf("a broker that has a group for the clients without a username cannot be without one; declare a group without roles instead of %q", have.anonymous)
	}
	plan := &accessPlan{api: c.api, path: m.path, secrets: c.options.Secrets, have: have, want: want, declared: map[string]Client{}}
	for _, v := range b.Clients {
		plan.declared[v.Username] = v
		if !hasKey(have.clients, v.Username) {
			c.needs("client "+v.Username, v.Password)
		}
	}
	steps := plan.plan()
	if m.Type != onPremise {
		if err := plan.checkManager(manager); err != nil {
			return err
		}
	}
	for _, s := range steps {
		s.Project, s.Broker = p.Name, b.Name
		c.steps = append(c.steps, c.located(s))
	}
	return nil
}

// pruner returns what decides whether an object that the file lacks is deleted. The account
// with which the service manages the broker is not, nor what it has its rights from.
func (c *comparison) pruner(p project, b Broker, have *access, managed bool, manager string) func(kind, name string) bool {
	held := map[string][]string{}
	if managed {
		roles, groups := have.holders(manager)
		held = map[string][]string{"client": {manager}, "role": roles, "group": groups}
	}
	return func(kind, name string) bool {
		s := c.located(Step{Project: p.Name, Broker: b.Name, Kind: kind, Name: name})
		switch prunes := c.options.prunes(s); {
		case !slices.Contains(held[kind], name):
			if !prunes {
				c.extra[kind]++
			}
			return prunes
		case prunes:
			s.Action, s.Reason = Keep, "the service manages the broker with it"
			c.steps = append(c.steps, s)
		}
		return false
	}
}

func hasKey[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

// check returns an error that names every reference of a file to a role or group that does
// not exist in the wanted state.
func (a *access) check(b *Broker) error {
	var bad []error
	if slices.ContainsFunc(b.Roles, func(r Role) bool { return r.RoleName == lockRole }) {
		bad = append(bad, fmt.Errorf("the role %s is that of an apply that was interrupted; repeat that one, or take the role out of the file", lockRole))
	}
	roles := func(of string, list []RoleRef) {
		for i, ref := range list {
			if !a.hasRole(ref.RoleName) {
				bad = append(bad, fmt.Errorf("%s has the role %q, which does not exist, or is deleted because the file lacks it", of, ref.RoleName))
			}
			if slices.ContainsFunc(list[:i], func(r RoleRef) bool { return r.RoleName == ref.RoleName }) {
				bad = append(bad, fmt.Errorf("%s has the role %q more than once", of, ref.RoleName))
			}
		}
	}
	for _, g := range b.Groups {
		roles("group "+g.GroupName, g.Roles)
	}
	for _, c := range b.Clients {
		roles("client "+c.Username, c.Roles)
		for i, ref := range c.Groups {
			if !hasKey(a.groups, ref.GroupName) {
				bad = append(bad, fmt.Errorf("client %s is in the group %q, which does not exist, or is deleted because the file lacks it", c.Username, ref.GroupName))
			}
			if slices.ContainsFunc(c.Groups[:i], func(r GroupRef) bool { return r.GroupName == ref.GroupName }) {
				bad = append(bad, fmt.Errorf("client %s is in the group %q more than once", c.Username, ref.GroupName))
			}
		}
	}
	if b.AnonymousGroup != nil && *b.AnonymousGroup != a.anonymous {
		bad = append(bad, fmt.Errorf("the group %q of the clients without a username does not exist", *b.AnonymousGroup))
	}
	return errors.Join(bad...)
}

// streams compares the definitions of streams.
func (c *comparison) streams(ctx context.Context, p project, m managed, b Broker) error {
	if b.Streams == nil {
		return nil
	}
	r, list := reader{api: c.api}, []broker.Stream{}
	r.all(ctx, m.path+"/streams", &list)
	have, err := unique(list, "stream", func(s broker.Stream) string { return s.StreamName }, everyName, r.err)
	if err != nil {
		return err
	}
	for _, want := range b.Streams {
		step := Step{Project: p.Name, Broker: b.Name, Kind: "stream", Name: want.StreamName, phase: messageFlow}
		old, exists := have[want.StreamName]
		delete(have, want.StreamName)
		if !exists {
			step.Action, step.do = Create, c.call("POST", m.path+"/streams", nil, want)
			c.add(step)
			continue
		}
		if change := want.changes(old); len(change.changes) > 0 {
			step.Action, step.Changes, step.do = Update, change.changes, c.call("PUT", m.path+"/streams", nil, change.fields)
			c.add(step)
		}
	}
	for _, name := range sorted(have) {
		c.add(Step{Action: Delete, Project: p.Name, Broker: b.Name, Kind: "stream", Name: name, phase: messageFlow,
			do: c.call("DELETE", m.path+"/streams", url.Values{"streamname": {name}}, nil)})
	}
	return nil
}

// changes returns what differs from a stream.
func (s Stream) changes(old broker.Stream) *body {
	b := newBody("streamname", s.StreamName)
	set(b, "sourcetopic", s.SourceTopic, old.SourceTopic)
	set(b, "targettopic", s.TargetTopic, old.TargetTopic)
	set(b, "targetqos", s.TargetQoS, old.TargetQoS)
	set(b, "ttl", s.TTL, old.TTL)
	set(b, "key", s.Key, old.Key)
	set(b, "textname", s.TextName, old.TextName)
	set(b, "textdescription", s.TextDescription, old.TextDescription)
	set(b, "active", s.Active, old.Active)
	set(b, "process", s.Process, old.Process)
	set(b, "persist", s.Persist, old.Persist)
	if s.Query != nil && !sameJSON(s.Query, old.Query) {
		b.fields["query"], b.changes = s.Query, append(b.changes, "query")
	}
	return b
}

// bridges compares the configurations of bridges.
func (c *comparison) bridges(ctx context.Context, p project, m managed, b Broker) error {
	if b.Bridges == nil {
		return nil
	}
	r, list := reader{api: c.api}, []bridgeRecord{}
	if r.get(ctx, m.path+"/bridges", nil, &list); r.err != nil {
		return r.err
	}
	for _, id := range sorted(b.Bridges) {
		if !slices.ContainsFunc(list, func(bridge bridgeRecord) bool { return bridge.ID == id }) {
			return &NotFoundError{fmt.Sprintf("there is no bridge %q", id)}
		}
	}
	for _, bridge := range list {
		want, declared := b.Bridges[bridge.ID]
		if !declared && !bridge.IsActive {
			continue
		}
		path := m.path + "/bridges/" + url.PathEscape(bridge.ID) + "/config"
		if !declared {
			c.add(Step{Action: Delete, Project: p.Name, Broker: b.Name, Kind: "bridge", Name: bridge.ID, phase: messageFlow,
				do: c.call("PUT", path, nil, map[string]any{"version": "v1", "connections": []any{}})})
			continue
		}
		if err := c.bridge(ctx, p, b, bridge, path, want); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) bridge(ctx context.Context, p project, b Broker, bridge bridgeRecord, path string, want json.RawMessage) error {
	r, have := reader{api: c.api}, json.RawMessage("null")
	if bridge.IsActive {
		if r.get(ctx, path, nil, &have); r.err != nil {
			return r.err
		}
	}
	hidden, err := c.options.Secrets.hide(want, have)
	if err != nil {
		return err
	}
	if sameJSON(hidden, have) {
		return nil
	}
	step := Step{Action: Update, Project: p.Name, Broker: b.Name, Kind: "bridge", Name: bridge.ID, Changes: []string{"configuration"}, phase: messageFlow}
	if !bridge.IsActive {
		step.Action, step.Changes = Create, nil
	}
	if !c.options.DryRun {
		config, err := c.options.Secrets.reveal(want)
		if err != nil {
			c.missing = append(c.missing, fmt.Errorf("bridge %s: %w", bridge.ID, err))
		}
		step.do = c.call("PUT", path, nil, config)
	}
	c.add(step)
	return nil
}
