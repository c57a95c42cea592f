package access

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/storage"
)

// everyTable are the tables that are read from their pages.
var everyTable = []table{clientTable, roleMembers, groupMembers, passwordTable, groupRoleTable}

// inPages returns the rows of a table as they are read from its pages, inSQL as SQLite returns them.
func inPages(t testing.TB, l *loader, from table) (list []string) {
	t.Helper()
	for row := range from.rows(l) {
		line := ""
		for _, c := range row {
			switch {
			case c.null:
				line += "NULL,"
			case c.text != nil:
				line += fmt.Sprintf("%q,", c.text)
			default:
				line += fmt.Sprintf("%d,", c.number)
			}
		}
		list = append(list, line)
	}
	must(t, l.err)
	return list
}

func inSQL(t testing.TB, l *loader, from table) (list []string) {
	t.Helper()
	rows, err := l.tx.QueryContext(t.Context(), "SELECT "+strings.Join(from.columns, ", ")+" FROM "+from.name+
		" ORDER BY "+strings.Join(from.columns[:from.key], ", "))
	must(t, err)
	defer rows.Close()
	values, destinations := make([]any, len(from.columns)), make([]any, len(from.columns))
	for i := range values {
		destinations[i] = &values[i]
	}
	for rows.Next() {
		must(t, rows.Scan(destinations...))
		line := ""
		for _, v := range values {
			switch v := v.(type) {
			case nil:
				line += "NULL,"
			case string:
				line += fmt.Sprintf("%q,", v)
			default:
				line += fmt.Sprintf("%d,", v)
			}
		}
		list = append(list, line)
	}
	must(t, rows.Err())
	return list
}

// TestPagesAreWhatSQLiteReads stores records of all sizes, so that some do not fit into their pages, keys and
// priorities of all sizes, and changes them, and compares what is read from the pages with what SQLite reads.
func TestPagesAreWhatSQLiteReads(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	text := func(most int) string {
		return strings.Repeat(string(rune('a'+random.IntN(26))), 1+int(float64(most)*random.Float64()*random.Float64()*random.Float64()))
	}
	for round := range 4 {
		insert := func(q string, args ...any) {
			_, err := c.store.w.ExecContext(t.Context(), q, args...)
			must(t, err)
		}
		insert(`BEGIN`)
		for i := range 40 {
			insert(`INSERT OR IGNORE INTO access_roles VALUES (?, NULL, NULL, 1, '[]')`, text(5000)+fmt.Sprint(i%20))
			insert(`INSERT OR IGNORE INTO access_groups VALUES (?, NULL, NULL)`, text(3000)+fmt.Sprint(i%20))
		}
		for range 300 {
			name := text(500)
			if random.IntN(20) == 0 {
				name = text(60_000)
			}
			name += fmt.Sprint(random.IntN(1000))
			optional := func() any { return []any{nil, "", "\x00 ü", text(40), text(10_000), text(100_000)}[random.IntN(6)] }
			insert(`INSERT OR REPLACE INTO access_clients VALUES (?, ?, ?, ?, ?)`, name, text(100)[1:], optional(), optional(), random.IntN(2))
			if random.IntN(2) == 0 {
				insert(`INSERT OR REPLACE INTO access_passwords VALUES (?, ?)`, name, text(6000))
			}
			priority := random.Int64() >> random.IntN(64) * int64(1-2*random.IntN(2))
			for _, q := range []string{
				`INSERT OR REPLACE INTO access_client_roles SELECT ?, rolename, ? FROM access_roles ORDER BY random() LIMIT 2`,
				`INSERT OR REPLACE INTO access_client_groups SELECT ?, groupname, ? FROM access_groups ORDER BY random() LIMIT 3`,
			} {
				insert(q, name, priority)
			}
		}
		insert(`INSERT OR REPLACE INTO access_group_roles SELECT groupname, rolename, random() FROM access_groups, access_roles ORDER BY random() LIMIT 100`)
		insert(`DELETE FROM access_clients WHERE abs(random()) % 3 = 0`)
		insert(`COMMIT`)
		if round == 2 { // what was in the WAL is in the file now
			must(t, c.Close(t.Context()))
			c = open(t, path)
		}
		tx, err := c.store.bulk.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
		must(t, err)
		l := &loader{ctx: t.Context(), tx: tx}
		for _, from := range everyTable {
			got, want := inPages(t, l, from), inSQL(t, l, from)
			if len(want) < 50 || !slices.Equal(got, want) {
				t.Errorf("%s: got %d rows, which are not the %d of SQLite", from.name, len(got), len(want))
			}
		}
		must(t, tx.Rollback())
	}
}

// TestLoadPages stores many clients with everything that a client may have, and compares what is read from
// the file.
func TestLoadPages(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), fresh(t)
	odd := "quoted \"'=, two lines\n, a zero byte \x00 and ü"
	for _, name := range []string{"a", "b", "ß"} {
		must(t, c.CreateRole(ctx, role(name)), c.CreateGroup(ctx, broker.GroupSpec{GroupName: name, Roles: []broker.RoleRef{{RoleName: name, Priority: 7}}}))
	}
	var commands []string
	for i := range 2000 {
		members := ""
		switch i % 4 {
		case 0:
			members = `,"roles":[{"rolename":"a"},{"rolename":"b","priority":0},{"rolename":"ß","priority":-5}],"groups":[{"groupname":"ß","priority":3}]`
		case 1:
			members = `,"roles":[{"rolename":"b","priority":2}],"groups":[{"groupname":"a"},{"groupname":"b","priority":0}],"textname":"","clientid":"c"`
		case 2:
			members = `,"password":"p"`
		}
		commands = append(commands, fmt.Sprintf(`{"command":"createClient","username":"client-%05d-ü"%s}`, i, members))
	}
	if answer := command(t, c, strings.Join(commands, ",")); strings.Contains(answer, "error") {
		t.Fatal(answer[:200])
	}
	must(t, c.CreateClient(ctx, broker.ClientSpec{Username: "0", TextName: &odd, TextDescription: &odd}),
		c.CreateClient(ctx, broker.ClientSpec{Username: "~", ClientID: new("='\""), TextDescription: new(string)}), c.DisableClient(ctx, "~"))
	if diff := cmp.Diff(inMemory(t, c), export(t, c)); diff != "" {
		t.Errorf("memory (-) and file (+) differ:\n%s", diff)
	}
}

// TestDamagedPages damages bytes of a file. It must be read, or refused as damaged.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	_, err := c.ImportAccess(t.Context(), strings.NewReader(manyClients(t, 3000)), true)
	must(t, err)
	shut(t, c)
	file, err := os.ReadFile(path)
	must(t, err)
	random := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 150 {
		damaged := slices.Clone(file)
		for range 30 { // of the beginnings of pages, where their cells are listed, but not of the first
			damaged[4096*(1+random.IntN(len(file)/4096-1))+random.IntN(64)] = byte(random.Uint32())
		}
		err := readDamaged(t, damaged)
		if err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// readDamaged reads all tables of a file from their pages.
func readDamaged(t *testing.T, file []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "damaged.db")
	must(t, os.WriteFile(path, file, 0o600))
	db := storage.OpenPool(path, 1, "mode=ro")
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback() //nolint:errcheck // read only
	for _, from := range everyTable {
		l := &loader{ctx: t.Context(), tx: tx}
		for range from.rows(l) { //nolint:revive // for the error
		}
		if l.err != nil {
			if err := storage.Explain(path, l.err); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("got %v, want that the file is damaged", err)
			}
			return l.err
		}
	}
	return nil
}

// TestPagesOfACancelledLoad ends the context of a load while it reads a page, and then needs others.
func TestPagesOfACancelledLoad(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	_, err := c.ImportAccess(t.Context(), strings.NewReader(manyClients(t, 20_000)), true)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := c.store.bulk.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	must(t, err)
	defer tx.Rollback() //nolint:errcheck // read only
	l, n := &loader{ctx: ctx, tx: tx}, 0
	for range clientTable.rows(l) {
		if n++; n != 100 {
			continue
		}
		cancel()
		for err := error(nil); err == nil; { // until the transaction has ended
			_, err = tx.ExecContext(t.Context(), `SELECT 1`)
		}
	}
	if l.err == nil || n == 20_000 {
		t.Errorf("got %d rows and error %v, want that it ended before", n, l.err)
	}
}

// FuzzRecord decodes records that no table has.
func FuzzRecord(f *testing.F) {
	for _, record := range [][]byte{{2, 15, 'a'}, {3, 1, 4, 255, 1, 2, 3, 4}, {5, 13, 0, 8, 9}, {4, 0x81, 0x0d, 6}, {0}, {1}, {9, 13}} {
		f.Add(record, 2)
	}
	f.Fuzz(func(t *testing.T, record []byte, columns int) {
		if columns < 1 || columns > 9 {
			return
		}
		row := make([]column, columns)
		if err := decodeRecord(record, row); err != nil && !errors.Is(err, storage.ErrDamaged) {
			t.Error(err)
		}
	})
}
