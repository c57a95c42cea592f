package access

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// rowsAtOnce is how many rows of many a statement stores: a statement for each row takes longer
// than the row itself. The driver searches for each value among those of its statement, so more take longer.
const rowsAtOnce = 32

// form is how a statement has a row: a parameter for each value, or only for the first ones.
type form struct {
	text   string
	values int
}

// rows are rows of one table that wait to be stored together.
type rows struct {
	of         *changeWriter
	insert     string // the statement without its rows
	all, usual form   // of any row, and of one that ends as most do, which takes less time
	full       map[string]*sql.Stmt

	values  []any // all values of the rows that wait
	unusual bool  // one of them does not end as most do
}

func (r *rows) add(usual bool, row ...any) {
	r.unusual = r.unusual || !usual
	if r.values = append(r.values, row...); len(r.values) == rowsAtOnce*r.all.values {
		r.store()
	}
}

// store stores the rows that wait.
func (r *rows) store() {
	if r.of.err != nil || len(r.values) == 0 {
		return
	}
	n, f := len(r.values)/r.all.values, r.all
	if !r.unusual {
		f = r.usual
		values := r.values[:0]
		for row := range slices.Chunk(r.values, r.all.values) {
			values = append(values, row[:f.values]...)
		}
		r.values = values
	}
	r.exec(r.insert+" VALUES "+strings.Repeat(", "+f.text, n)[2:], n)
	r.values, r.unusual = r.values[:0], false
}

func (r *rows) exec(text string, n int) {
	if n < rowsAtOnce {
		_, r.of.err = r.of.tx.ExecContext(r.of.ctx, text, r.values...)
		return
	}
	statement, ok := r.full[text]
	if !ok {
		if statement, r.of.err = r.of.tx.PrepareContext(r.of.ctx, text); r.of.err != nil {
			return
		}
		r.full[text] = statement
	}
	_, r.of.err = statement.ExecContext(r.of.ctx, r.values...)
}

// rows returns rows of a table that wait. An error rolls the transaction back at once: a statement of several
// rows that could fail alone would copy each page for that before it is changed.
func (c *changeWriter) rows(table string, all, usual form) *rows {
	return &rows{of: c, insert: "INSERT OR ROLLBACK INTO " + table, all: all, usual: usual, full: map[string]*sql.Stmt{}}
}

// clients stores many new clients.
func (c *changeWriter) clients(many dynsec.PutClients) {
	// Beside changes that remove a record, references are verified: memberships may be stored before their clients.
	if c.err == nil {
		_, c.err = c.tx.ExecContext(c.ctx, `PRAGMA defer_foreign_keys = ON`)
	}
	restore := c.withoutIndexes()
	defer restore()
	clients := c.rows(`access_clients (username, clientid, textname, textdescription, disabled)`, form{`(?, ?, ?, ?, ?)`, 5}, form{`(?, '', NULL, NULL, 0)`, 1})
	passwords := c.rows(`access_passwords (username, encoded)`, form{`(?, ?)`, 2}, form{`(?, ?)`, 2})
	roles := c.rows(`access_client_roles (username, rolename, priority)`, form{`(?, ?, ?)`, 3}, form{`(?, ?, -1)`, 2})
	groups := c.rows(`access_client_groups (username, groupname, priority)`, form{`(?, ?, ?)`, 3}, form{`(?, ?, -1)`, 2})
	for p := range many.Each {
		name := any(p.Username)
		clients.add(p.ClientID == "" && p.TextName == nil && p.TextDescription == nil && !p.Disabled, name, p.ClientID, p.TextName, p.TextDescription, p.Disabled)
		if *p.Password != "" {
			passwords.add(true, name, *p.Password)
		}
		for _, ref := range p.Roles {
			roles.add(ref.Priority == broker.NoPriority, name, ref.RoleName, int64(ref.Priority))
		}
		for _, ref := range p.Groups {
			groups.add(ref.Priority == broker.NoPriority, name, ref.GroupName, int64(ref.Priority))
		}
		if c.err != nil {
			return
		}
	}
	for _, r := range []*rows{clients, passwords, roles, groups} {
		r.store()
	}
}

// memberIndexes are the indexes of the clients' memberships, and their tables.
var memberIndexes = map[string]string{
	"access_client_groups_by_group": "access_client_groups (groupname)",
	"access_client_roles_by_role":   "access_client_roles (rolename)",
}

// withoutIndexes drops the indexes of empty tables of memberships until restore is called: to make an index of all rows at
// once takes less time than to enter each.
func (c *changeWriter) withoutIndexes() (restore func()) {
	var dropped []string
	for index, of := range memberIndexes {
		table, _, _ := strings.Cut(of, " ")
		var empty bool
		if c.err == nil {
			c.err = c.tx.QueryRowContext(c.ctx, `SELECT NOT EXISTS (SELECT 1 FROM `+table+`)`).Scan(&empty)
		}
		if c.err == nil && empty {
			_, c.err = c.tx.ExecContext(c.ctx, `DROP INDEX `+index)
			dropped = append(dropped, index)
		}
	}
	return func() {
		for _, index := range dropped {
			if c.err == nil {
				_, c.err = c.tx.ExecContext(c.ctx, `CREATE INDEX `+index+` ON `+memberIndexes[index])
			}
		}
	}
}

// withoutReferences calls do while the writer does not verify foreign keys, if the changes put many
// clients: their references were verified when the document was read, and the search for each costs
// as much as to store it. If changes also remove a record, what refers to it must be removed with it.
func (s *store) withoutReferences(ctx context.Context, changes []dynsec.Change, do func() error) (err error) {
	if !slices.ContainsFunc(changes, putsMany) || slices.ContainsFunc(changes, removesOne) {
		return do()
	}
	if _, err := s.w.ExecContext(ctx, `PRAGMA foreign_keys = OFF`); err != nil {
		return fmt.Errorf("begin a bulk: %w", err)
	}
	defer func() {
		if _, on := s.w.ExecContext(context.WithoutCancel(ctx), `PRAGMA foreign_keys = ON`); on != nil && err == nil {
			err = fmt.Errorf("end a bulk: %w", on)
		}
	}()
	return do()
}

func putsMany(c dynsec.Change) bool {
	_, ok := c.(dynsec.PutClients)
	return ok
}

func removesOne(c dynsec.Change) bool {
	switch c.(type) {
	case dynsec.DropClient, dynsec.DropGroup, dynsec.DropRole:
		return true
	}
	return false
}
