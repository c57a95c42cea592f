package router

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"time"

	"signalbox/broker"
	"signalbox/handlers/audit"
)

// maxAuditEntries bounds a list in the audit log.
const maxAuditEntries = 200

// masked returns a JSON value, which must be valid, for the audit log: members that the type has, without
// secrets, and not longer than is useful.
func (s *shape) masked(raw json.RawMessage, r *rules) any {
	raw = skipSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case r.secret || r.masked || s.isSecret():
		return audit.Mask
	}
	switch s.kind {
	case object:
		return s.maskedObject(raw)
	case list:
		return s.maskedList(raw)
	case table:
		return s.maskedTable(raw)
	}
	if raw[0] == '"' {
		return audit.Shorten(unquote(raw))
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// isSecret reports whether the type is that of secrets.
func (s *shape) isSecret() bool {
	for ; s != nil; s = s.inner {
		if s.typ == reflect.TypeFor[broker.Secret]() {
			return true
		}
	}
	return false
}

func (s *shape) maskedObject(raw json.RawMessage) any {
	if raw[0] != '{' {
		return nil
	}
	out := map[string]any{}
	for name, value := range members(raw) {
		if i := s.memberIndex(name); i >= 0 {
			m := &s.members[i]
			out[name] = m.shape.masked(value, &m.rules)
		}
	}
	return out
}

func (s *shape) maskedList(raw json.RawMessage) any {
	if raw[0] != '[' {
		return nil
	}
	out, omitted := []any{}, 0
	for i, value := range elements(raw) {
		if i < maxAuditEntries {
			out = append(out, s.elem.masked(value, &rules{}))
		} else {
			omitted++
		}
	}
	if omitted > 0 {
		out = append(out, map[string]any{"omitted": omitted})
	}
	return out
}

func (s *shape) maskedTable(raw json.RawMessage) any {
	if raw[0] != '{' {
		return nil
	}
	out := map[string]any{}
	for name, value := range members(raw) {
		if len(out) == maxAuditEntries {
			break
		}
		out[name] = s.elem.masked(value, &rules{})
	}
	return out
}

// maskedQuery returns the parameters of a query that the operation has.
func (p *plan) maskedQuery(given url.Values) map[string]any {
	var out map[string]any
	for i := range p.query {
		q := &p.query[i]
		if !given.Has(q.name) {
			continue
		}
		if out == nil {
			out = map[string]any{}
		}
		if q.rules.secret {
			out[q.name] = audit.Mask
		} else {
			out[q.name] = audit.Shorten(strings.Join(given[q.name], ", "))
		}
	}
	return out
}

// beforeTime bounds how long the state before a change is waited for. Without it the row of
// the audit log has only the change.
const beforeTime = time.Second

// before returns the state of the object with that name that a request changes: the members that the body
// names, or all for an operation without a body.
func (a *auditedRequest) before(ctx context.Context, object string, c audit.Change) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, beforeTime)
	defer cancel()
	name, query, _ := strings.Cut(a.row.Before, "?")
	state := a.rt.read(ctx, a.rt.rowOf(name), a, object, fillTemplate(query, c))
	if c.After == nil || state == nil {
		return state
	}
	changed := map[string]any{}
	for member := range c.After {
		if v, ok := state[member]; ok {
			changed[member] = v
		}
	}
	return changed
}

// fillTemplate replaces {member} in a query by a member of the request.
func fillTemplate(query string, c audit.Change) string {
	for _, members := range []map[string]any{c.Parameters, c.After} {
		for name, v := range members {
			if s, ok := v.(string); ok {
				query = strings.ReplaceAll(query, "{"+name+"}", url.QueryEscape(s))
			}
		}
	}
	return query
}

// read calls an operation that reads, with the path of a request, and returns its result: an
// object, or the first one of a list. nil: there is none.
func (rt *router) read(ctx context.Context, row *route, a *auditedRequest, object, query string) map[string]any {
	v := reflect.New(row.plan.typ)
	row.plan.bindPath(v.Elem(), a.params)
	if q, ok := v.Interface().(resolver); ok && q.Resolve(ctx, rt.api) != nil {
		return nil
	}
	var bad problems
	row.plan.bindQuery(&bad, v.Elem(), query)
	if len(bad.list) > 0 {
		return nil
	}
	answer, err := row.Do.call(ctx, v.Interface())
	if err != nil {
		return nil
	}
	if list, ok := answer.(streamed); ok {
		answer = firstOf(list, object)
	}
	encoded, err := json.Marshal(answer)
	if err != nil {
		return nil
	}
	var out map[string]any
	if json.Unmarshal(encoded, &out) != nil {
		return nil
	}
	return out
}

// firstOf returns the only entry of a list, or the one with that id.
func firstOf(list streamed, id string) (found any) {
	list.Each(func(entry any) error { //nolint:errcheck // without the entry the row is still right
		if list.TotalCount() == 1 || idOf(entry) == id {
			found = entry
		}
		return nil
	})
	return found
}

// idOf returns the id of an entry of a list.
func idOf(entry any) string {
	var named struct{ ID, UserID string }
	encoded, err := json.Marshal(entry)
	if err != nil || json.Unmarshal(encoded, &named) != nil {
		return ""
	}
	if named.UserID != "" {
		return named.UserID
	}
	return named.ID
}
