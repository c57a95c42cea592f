package access

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// load reads the state as of one moment, and its index in the shared log.
// initialised tells whether anything was ever stored.
func (s *store) load(ctx context.Context) (state *dynsec.State, initialised bool, index int64, err error) {
	tx, err := s.bulk.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, false, 0, err
	}
	defer tx.Rollback() //nolint:errcheck // it only read
	if index, err = applied(ctx, tx); err != nil {
		return nil, false, 0, err
	}
	state, initialised, err = loadState(ctx, tx)
	return state, initialised, index, err
}

func loadState(ctx context.Context, tx *sql.Tx) (*dynsec.State, bool, error) {
	l := &loader{ctx: ctx, tx: tx}
	records, err := l.settings()
	if errors.Is(err, sql.ErrNoRows) {
		return dynsec.NewState(), false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read settings: %w", err)
	}
	records.Roles, records.Groups, records.Clients = l.roles(), l.groups(), l.clients()
	state, err := dynsec.Load(records)
	if l.err != nil {
		err = l.err
	}
	return state, true, err
}

// loader yields the records of a store in order of their names. The first
// failure ends every sequence and is kept.
type loader struct {
	ctx context.Context //nolint:containedctx // lives for one call of loadState
	tx  *sql.Tx
	err error
}

func (l *loader) settings() (r dynsec.LoadRecords, err error) {
	const q = `
		SELECT publish_client_send, publish_client_receive, subscribe, unsubscribe, anonymous_group, change_index
		FROM access_settings`
	d, group := &r.Defaults, sql.NullString{}
	err = l.tx.QueryRowContext(l.ctx, q).Scan(&d.PublishClientSend, &d.PublishClientReceive, &d.Subscribe,
		&d.Unsubscribe, &group, &r.ChangeIndex)
	r.AnonymousGroup = group.String
	return r, err
}

func (l *loader) roles() iter.Seq[dynsec.RoleRecord] {
	const q = `
		SELECT rolename, textname, textdescription, allow_wildcard_subs, acls
		FROM access_roles ORDER BY rolename`
	return query(l, q, func(r *dynsec.RoleRecord) []any {
		return []any{&r.RoleName, &r.TextName, &r.TextDescription, &r.AllowWildcardSubs, (*aclList)(&r.ACLs)}
	})
}

func (l *loader) groups() iter.Seq[dynsec.GroupRecord] {
	const (
		q     = `SELECT groupname, textname, textdescription FROM access_groups ORDER BY groupname`
		roles = `SELECT groupname, rolename, priority FROM access_group_roles ORDER BY groupname, rolename`
	)
	return func(yield func(dynsec.GroupRecord) bool) {
		held := l.follow(roles)
		defer held.stop()
		for g := range query(l, q, func(g *dynsec.GroupRecord) []any {
			return []any{&g.GroupName, &g.TextName, &g.TextDescription}
		}) {
			for _, m := range held.of(g.GroupName) {
				g.Roles = append(g.Roles, broker.RoleRef{RoleName: m.of, Priority: m.priority})
			}
			if !yield(g) {
				return
			}
		}
	}
}

func (l *loader) clients() iter.Seq[dynsec.ClientRecord] {
	const (
		q         = `SELECT username, clientid, textname, textdescription, disabled FROM access_clients ORDER BY username`
		passwords = `SELECT username, '', 0 FROM access_passwords ORDER BY username`
		roles     = `SELECT username, rolename, priority FROM access_client_roles ORDER BY username, rolename`
		groups    = `SELECT username, groupname, priority FROM access_client_groups ORDER BY username, groupname`
	)
	return func(yield func(dynsec.ClientRecord) bool) {
		password, inRoles, inGroups := l.follow(passwords), l.follow(roles), l.follow(groups)
		defer password.stop()
		defer inRoles.stop()
		defer inGroups.stop()
		for c := range query(l, q, func(c *dynsec.ClientRecord) []any {
			return []any{&c.Username, &c.ClientID, &c.TextName, &c.TextDescription, &c.Disabled}
		}) {
			c.HasPassword = len(password.of(c.Username)) > 0
			for _, m := range inRoles.of(c.Username) {
				c.Roles = append(c.Roles, broker.RoleRef{RoleName: m.of, Priority: m.priority})
			}
			for _, m := range inGroups.of(c.Username) {
				c.Groups = append(c.Groups, broker.GroupRef{GroupName: m.of, Priority: m.priority})
			}
			if !yield(c) {
				return
			}
		}
	}
}

// aclList reads a role's ACLs from their JSON.
type aclList []broker.ACL

// Scan implements sql.Scanner.
func (a *aclList) Scan(src any) error {
	text, ok := src.(string)
	if !ok {
		return fmt.Errorf("ACLs are %T, want text", src)
	}
	*a = nil
	return json.Unmarshal([]byte(text), a)
}

// member says that name holds, or is in, of.
type member struct {
	name, of string
	priority broker.Priority
}

// follower gives the members of one name after the other from a query in order
// of names. It must be asked for the names in that order.
type follower struct {
	next  func() (member, bool)
	stop  func()
	head  member // the next one, if more
	more  bool
	found []member
}

func (l *loader) follow(q string) *follower {
	f := &follower{}
	f.next, f.stop = iter.Pull(query(l, q, func(m *member) []any { return []any{&m.name, &m.of, &m.priority} }))
	f.head, f.more = f.next()
	return f
}

// of gives the members of a name, valid until the next call.
func (f *follower) of(name string) []member {
	f.found = f.found[:0]
	for ; f.more && f.head.name == name; f.head, f.more = f.next() {
		f.found = append(f.found, f.head)
	}
	return f.found
}

// query yields the rows, read into the places that columns names. All rows are
// read into the same place, as garbage among what stays would keep its memory
// from being given back after a start with many records.
func query[T any](l *loader, q string, columns func(*T) []any) iter.Seq[T] {
	return func(yield func(T) bool) {
		if l.err != nil {
			return
		}
		rows, err := l.tx.QueryContext(l.ctx, q)
		if err != nil {
			l.err = err
			return
		}
		defer rows.Close()
		var v T
		places := columns(&v)
		for rows.Next() {
			if l.err = rows.Scan(places...); l.err != nil || !yield(v) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			l.err = err
		}
	}
}
