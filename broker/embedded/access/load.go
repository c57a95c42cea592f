package access

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// load reads the state as of one moment, and its index in the shared log. initialised
// reports whether anything was ever stored. The tables with rows for each client are read at once.
func (s *store) load(ctx context.Context) (state *dynsec.State, initialised bool, index int64, err error) {
	txs, index, err := s.sameMoment(ctx, 1+aheadTables)
	defer func() {
		for _, tx := range txs {
			tx.Rollback() //nolint:errcheck // read only
		}
	}()
	if err != nil {
		return nil, false, 0, err
	}
	state, initialised, err = (&loader{ctx: ctx, tx: txs[0], beside: txs[1:]}).state()
	return state, initialised, index, err
}

// sameMoment returns transactions that read the state of one moment, and its index in the shared
// log: nothing is written while they begin. The caller must end those that are not nil.
func (s *store) sameMoment(ctx context.Context, n int) (txs []*sql.Tx, index int64, err error) {
	if err := s.file.Lock(ctx); err != nil {
		return nil, 0, err
	}
	defer s.file.Unlock()
	for range n {
		tx, err := s.bulk.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return txs, 0, err
		}
		txs = append(txs, tx)
		if index, err = readApplied(ctx, tx); err != nil { // the first read fixes the moment
			return txs, 0, err
		}
	}
	return txs, index, nil
}

func loadState(ctx context.Context, tx *sql.Tx) (*dynsec.State, bool, error) {
	return (&loader{ctx: ctx, tx: tx}).state()
}

// aheadTables is how many tables are read by transactions of their own: roles and groups of clients.
const aheadTables = 2

// loader reads the records of a store in the order of their names. The first error ends
// every sequence and is kept.
type loader struct {
	ctx    context.Context //nolint:containedctx // lives for one call of loadState
	tx     *sql.Tx
	beside []*sql.Tx // of the same moment, for cursors in turn; may be empty
	err    error
}

func (l *loader) state() (*dynsec.State, bool, error) {
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
	const q = `SELECT groupname, textname, textdescription FROM access_groups ORDER BY groupname`
	return func(yield func(dynsec.GroupRecord) bool) {
		held := l.cursor(groupRoleTable, sharedNames())
		defer held.stop()
		for g := range query(l, q, func(g *dynsec.GroupRecord) []any {
			return []any{&g.GroupName, &g.TextName, &g.TextDescription}
		}) {
			for _, m := range held.membersOf(g.GroupName) {
				g.Roles = append(g.Roles, broker.RoleRef{RoleName: m.name, Priority: m.priority})
			}
			if !yield(g) {
				return
			}
		}
	}
}

// The tables with rows for each client.
var (
	clientTable    = table{"access_clients", []string{"username", "clientid", "textname", "textdescription", "disabled"}, 1}
	roleMembers    = table{"access_client_roles", []string{"username", "rolename", "priority"}, 2}
	groupMembers   = table{"access_client_groups", []string{"username", "groupname", "priority"}, 2}
	passwordTable  = table{"access_passwords", []string{"username", "encoded"}, 1}
	groupRoleTable = table{"access_group_roles", []string{"groupname", "rolename", "priority"}, 2}
)

// clients yields the clients. Their lists are valid until the next one.
func (l *loader) clients() iter.Seq[dynsec.ClientRecord] {
	return func(yield func(dynsec.ClientRecord) bool) {
		inRoles, inGroups := l.cursor(roleMembers, sharedNames()), l.cursor(groupMembers, sharedNames())
		password := l.passwords()
		defer password.stop()
		defer inRoles.stop()
		defer inGroups.stop()
		var c dynsec.ClientRecord
		var names packedStrings
		for row := range clientTable.rows(l) {
			c.Username, c.ClientID, c.Disabled = names.add(row[0].text), string(row[1].text), row[4].number != 0
			c.TextName, c.TextDescription = row[2].optional(), row[3].optional()
			c.HasPassword = password == nil || len(password.membersOf(c.Username)) > 0
			c.Roles, c.Groups = c.Roles[:0], c.Groups[:0]
			for _, m := range inRoles.membersOf(c.Username) {
				c.Roles = append(c.Roles, broker.RoleRef{RoleName: m.name, Priority: m.priority})
			}
			for _, m := range inGroups.membersOf(c.Username) {
				c.Groups = append(c.Groups, broker.GroupRef{GroupName: m.name, Priority: m.priority})
			}
			if !yield(c) {
				return
			}
		}
	}
}

// packedStrings makes strings of texts, many of them in one piece of memory.
type packedStrings struct{ last strings.Builder }

func (p *packedStrings) add(text []byte) string {
	const piece = 16 << 10
	if p.last.Cap()-p.last.Len() < len(text) {
		p.last = strings.Builder{}
		p.last.Grow(max(piece, len(text)))
	}
	from := p.last.Len()
	p.last.Write(text)
	return p.last.String()[from:]
}

// passwords returns a cursor of the passwords' owners, nil if every client has one: to count them
// costs a third of reading them.
func (l *loader) passwords() *memberCursor {
	const all = `SELECT (SELECT count(*) FROM access_clients) = (SELECT count(*) FROM access_passwords)`
	var complete bool
	if err := l.tx.QueryRowContext(l.ctx, all).Scan(&complete); err != nil {
		l.err = errors.Join(l.err, err)
	}
	if complete {
		return nil
	}
	return l.cursor(passwordTable, noNames)
}

// aclList decodes a role's ACLs from their JSON.
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

// query yields the rows, read into the variables that columns returns. All rows are read
// into the same variables: garbage between long-lived records would fragment the heap after
// a start with many of them.
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
		destinations := columns(&v)
		for rows.Next() {
			if l.err = rows.Scan(destinations...); l.err != nil || !yield(v) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			l.err = err
		}
	}
}
