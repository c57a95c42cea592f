package access

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/broker/storage"
)

// batch is the content of one transaction: changes in order, replacing everything if
// replaces is set, and the index in the shared log that they reach, 0 for a broker that
// makes changes by itself.
type batch struct {
	changes  []dynsec.Change
	replaces bool
	index    uint64
}

// durability returns what the batch must survive. A change of the shared log is on the
// disks of a majority before it is stored here: if a loss of power takes it, its index is
// lost with it, and it is applied again.
func (b batch) durability() storage.Durability {
	if b.index > 0 && !b.replaces {
		return storage.Process
	}
	return storage.Full
}

// write stores a batch, all or nothing. The first changes also mark the broker as
// initialised.
func (s *store) write(ctx context.Context, b batch) error {
	return s.transact(ctx, b, func(commit func() error) error { return commit() })
}

// transact is write with a callback: finish calls commit, and does around it what must be
// atomic with it.
func (s *store) transact(ctx context.Context, b batch, finish func(commit func() error) error) error {
	if err := s.file.Lock(ctx); err != nil {
		return s.writeFailed(fmt.Errorf("wait to write: %w", err))
	}
	defer s.file.Unlock()
	if err := s.setDurability(ctx, b.durability()); err != nil {
		return s.writeFailed(err)
	}
	err := s.withoutReferences(ctx, b.changes, func() error { return s.inTransaction(ctx, b, finish) })
	if err != nil {
		return s.writeFailed(err)
	}
	s.writable.Store(true)
	return nil
}

func (s *store) inTransaction(ctx context.Context, b batch, finish func(commit func() error) error) error {
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing to undo after a commit
	if err := s.putAll(&changeWriter{ctx: ctx, tx: tx, put: s.put, bound: map[*sql.Stmt]*sql.Stmt{}}, b); err != nil {
		return err
	}
	if err := finish(tx.Commit); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *store) writeFailed(err error) error {
	s.writable.Store(false)
	return err
}

func (s *store) putAll(c *changeWriter, b batch) error {
	if b.replaces {
		c.store(dynsec.Clear{})
		c.exec(c.put.deleteSettings)
	}
	if len(b.changes) > 0 {
		c.exec(c.put.insertSettings)
	}
	for _, ch := range b.changes {
		if c.store(ch); c.err != nil {
			return fmt.Errorf("store %T: %w", ch, c.err)
		}
	}
	if b.index > 0 || b.replaces {
		c.exec(c.put.applied, int64(b.index))
	}
	return c.err
}

// changeWriter stores changes in a transaction. After the first error, which it keeps, it
// does nothing more.
type changeWriter struct {
	ctx   context.Context //nolint:containedctx // lives for one call of write
	tx    *sql.Tx
	put   *statements
	bound map[*sql.Stmt]*sql.Stmt // statements of put, bound to the transaction
	err   error
}

// exec runs a statement and reports whether it changed a row.
func (c *changeWriter) exec(stmt *sql.Stmt, args ...any) (changed bool) {
	if c.err != nil {
		return false
	}
	own, ok := c.bound[stmt]
	if !ok {
		own = c.tx.StmtContext(c.ctx, stmt)
		c.bound[stmt] = own
	}
	var result sql.Result
	if result, c.err = own.ExecContext(c.ctx, args...); c.err != nil {
		return false
	}
	n, err := result.RowsAffected()
	c.err = err
	return n > 0
}

func (c *changeWriter) store(ch dynsec.Change) {
	switch ch := ch.(type) {
	case dynsec.PutClient:
		c.client(ch)
	case dynsec.PutClients:
		c.clients(ch)
	case dynsec.DropClient:
		c.exec(c.put.deleteClient, ch.Username)
	case dynsec.PutGroup:
		c.group(ch.GroupRecord)
	case dynsec.DropGroup:
		c.exec(c.put.deleteGroup, ch.GroupName)
	case dynsec.PutRole:
		c.role(ch.RoleRecord)
	case dynsec.DropRole:
		c.exec(c.put.deleteRole, ch.RoleName)
	case dynsec.PutDefaults:
		d := ch.Defaults
		c.exec(c.put.defaults, d.PublishClientSend, d.PublishClientReceive, d.Subscribe, d.Unsubscribe)
	case dynsec.PutAnonymousGroup:
		c.exec(c.put.anonymousGroup, sql.NullString{String: ch.GroupName, Valid: ch.GroupName != ""})
	case dynsec.PutChangeIndex:
		c.exec(c.put.changeIndex, ch.Index)
	case dynsec.Clear:
		for _, stmt := range c.put.clear {
			c.exec(stmt)
		}
	default:
		c.err = errors.New("unknown kind of change")
	}
}

func (c *changeWriter) client(p dynsec.PutClient) {
	if old := p.Previous; old != nil {
		c.clientChange(*old, p)
		return
	}
	isNew := c.exec(c.put.newClient, p.Username, p.ClientID, p.TextName, p.TextDescription, p.Disabled)
	if !isNew {
		c.exec(c.put.client, p.ClientID, p.TextName, p.TextDescription, p.Disabled, p.Username)
		c.exec(c.put.deleteClientRoles, p.Username)
		c.exec(c.put.deleteClientGroups, p.Username)
	}
	if !isNew || p.Password != nil && *p.Password != "" {
		c.password(p) // of a new client there is none to delete
	}
	for _, ref := range p.Roles {
		c.exec(c.put.clientRole, p.Username, ref.RoleName, ref.Priority)
	}
	for _, ref := range p.Groups {
		c.exec(c.put.clientGroup, p.Username, ref.GroupName, ref.Priority)
	}
}

func (c *changeWriter) password(p dynsec.PutClient) {
	switch {
	case p.Password == nil:
	case *p.Password == "":
		c.exec(c.put.deletePassword, p.Username)
	default:
		c.exec(c.put.password, p.Username, *p.Password)
	}
}

// clientChange stores only what differs from the stored record: otherwise a group with many
// members would be stored with all roles and groups of its members.
func (c *changeWriter) clientChange(old dynsec.ClientRecord, p dynsec.PutClient) {
	if old.ClientID != p.ClientID || !sameText(old.TextName, p.TextName) || !sameText(old.TextDescription, p.TextDescription) || old.Disabled != p.Disabled {
		c.exec(c.put.client, p.ClientID, p.TextName, p.TextDescription, p.Disabled, p.Username)
	}
	c.password(p)
	removed, added := difference(old.Roles, p.Roles)
	for _, ref := range removed {
		c.exec(c.put.deleteClientRole, p.Username, ref.RoleName)
	}
	for _, ref := range added {
		c.exec(c.put.clientRole, p.Username, ref.RoleName, ref.Priority)
	}
	left, joined := difference(old.Groups, p.Groups)
	for _, ref := range left {
		c.exec(c.put.deleteClientGroup, p.Username, ref.GroupName)
	}
	for _, ref := range joined {
		c.exec(c.put.clientGroup, p.Username, ref.GroupName, ref.Priority)
	}
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// difference returns the elements of each list that the other does not contain. A reference
// with another priority is another element.
func difference[R comparable](old, next []R) (removed, added []R) {
	only := func(of, other []R) (list []R) {
		for _, ref := range of {
			if !slices.Contains(other, ref) {
				list = append(list, ref)
			}
		}
		return list
	}
	return only(old, next), only(next, old)
}

func (c *changeWriter) group(g dynsec.GroupRecord) {
	c.exec(c.put.group, g.GroupName, g.TextName, g.TextDescription)
	c.exec(c.put.deleteGroupRoles, g.GroupName)
	for _, ref := range g.Roles {
		c.exec(c.put.groupRole, g.GroupName, ref.RoleName, ref.Priority)
	}
}

func (c *changeWriter) role(r dynsec.RoleRecord) {
	if r.ACLs == nil {
		r.ACLs = []broker.ACL{}
	}
	acls, err := json.Marshal(r.ACLs)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	c.exec(c.put.role, r.RoleName, r.TextName, r.TextDescription, r.AllowWildcardSubs, string(acls))
}
