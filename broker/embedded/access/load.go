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

// load reads the state as of one moment. initialised tells whether anything was
// ever stored.
func (s *store) load(ctx context.Context) (state *dynsec.State, initialised bool, err error) {
	tx, err := s.r.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, false, err
	}
	defer tx.Rollback() //nolint:errcheck // it only read
	return loadState(ctx, tx)
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
	return query(l, q, scanRole)
}

func scanRole(rows *sql.Rows) (r dynsec.RoleRecord, err error) {
	var acls []byte
	err = rows.Scan(&r.RoleName, &r.TextName, &r.TextDescription, &r.AllowWildcardSubs, &acls)
	if err == nil {
		err = json.Unmarshal(acls, &r.ACLs)
	}
	return r, err
}

func (l *loader) groups() iter.Seq[dynsec.GroupRecord] {
	const q = `SELECT groupname, textname, textdescription FROM access_groups ORDER BY groupname`
	const roles = `SELECT groupname, rolename, priority FROM access_group_roles ORDER BY groupname, rolename`
	return func(yield func(dynsec.GroupRecord) bool) {
		held, stop := follow(query(l, roles, scanMember))
		defer stop()
		for g := range query(l, q, scanGroup) {
			for m := range held(g.GroupName) {
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
		password, stopPasswords := follow(query(l, passwords, scanMember))
		defer stopPasswords()
		heldRoles, stopRoles := follow(query(l, roles, scanMember))
		defer stopRoles()
		heldGroups, stopGroups := follow(query(l, groups, scanMember))
		defer stopGroups()
		for c := range query(l, q, scanClient) {
			for range password(c.Username) {
				c.HasPassword = true
			}
			for m := range heldRoles(c.Username) {
				c.Roles = append(c.Roles, broker.RoleRef{RoleName: m.of, Priority: m.priority})
			}
			for m := range heldGroups(c.Username) {
				c.Groups = append(c.Groups, broker.GroupRef{GroupName: m.of, Priority: m.priority})
			}
			if !yield(c) {
				return
			}
		}
	}
}

func scanGroup(rows *sql.Rows) (g dynsec.GroupRecord, err error) {
	err = rows.Scan(&g.GroupName, &g.TextName, &g.TextDescription)
	return g, err
}

func scanClient(rows *sql.Rows) (c dynsec.ClientRecord, err error) {
	err = rows.Scan(&c.Username, &c.ClientID, &c.TextName, &c.TextDescription, &c.Disabled)
	return c, err
}

// member says that name holds, or is in, of.
type member struct {
	name, of string
	priority broker.Priority
}

func scanMember(rows *sql.Rows) (m member, err error) {
	err = rows.Scan(&m.name, &m.of, &m.priority)
	return m, err
}

// follow gives the members of one name after the other from a sequence in order
// of names. It must be asked for the names in that order. stop ends the
// sequence.
func follow(seq iter.Seq[member]) (of func(name string) iter.Seq[member], stop func()) {
	next, stop := iter.Pull(seq)
	head, ok := next()
	return func(name string) iter.Seq[member] {
		return func(yield func(member) bool) {
			for ok && head.name == name && yield(head) {
				head, ok = next()
			}
		}
	}, stop
}

// query yields what scan makes of the rows.
func query[T any](l *loader, q string, scan func(*sql.Rows) (T, error)) iter.Seq[T] {
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
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				l.err = err
				return
			}
			if !yield(v) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			l.err = err
		}
	}
}
