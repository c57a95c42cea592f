package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// TestLoadPages stores more clients and memberships than a page has, with everything that a client may
// have, and compares what is read from the file.
func TestLoadPages(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), fresh(t)
	odd := "quoted \"'=, two lines\n, a zero byte \x00 and ü"
	for _, name := range []string{"a", "b", "ß"} {
		must(t, c.CreateRole(ctx, role(name)), c.CreateGroup(ctx, broker.GroupSpec{GroupName: name, Roles: []broker.RoleRef{{RoleName: name, Priority: 7}}}))
	}
	var commands []string
	for i := range 2*pageRows + 3 {
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

// TestLoadOutOfOrder reads rows that SQLite does not return in order.
func TestLoadOutOfOrder(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), fresh(t)
	tx, err := c.store.bulk.BeginTx(ctx, nil)
	must(t, err)
	defer tx.Rollback() //nolint:errcheck // read only
	l := &loader{ctx: ctx, tx: tx}
	unordered := listing{table: "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) SELECT i FROM n)",
		key: []string{"hex(randomblob(8))"}, rest: "x'00' || i || x'00'", width: 2}
	rows := 0
	for range unordered.rows(l) {
		rows++
	}
	if l.err == nil || !strings.Contains(l.err.Error(), "not in order") {
		t.Errorf("got %d rows and error %v", rows, l.err)
	}
}
