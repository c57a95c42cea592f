package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// manyClients returns a document with more clients than a statement stores at once, every second of
// them with a password.
func manyClients(t testing.TB, n int) string {
	t.Helper()
	hash, err := dynsec.HashPassword([]byte("secret"), iterations)
	must(t, err)
	var clients, members []string
	for i := range n {
		password := ""
		if i%2 == 1 {
			password = fmt.Sprintf(`,"encoded_password":%q`, hash)
		}
		clients = append(clients, fmt.Sprintf(`{"username":"many-%d","roles":[{"rolename":"r"},{"rolename":"s","priority":%d}]%s}`, i, i%3, password))
		members = append(members, fmt.Sprintf(`{"username":"many-%d","priority":%d}`, i, i%2))
	}
	return `{"groups":[{"groupname":"early","clients":[` + strings.Join(members, ",") + `],"roles":[{"rolename":"r"}]}],
		"clients":[` + strings.Join(clients, ",") + `],"anonymousGroup":"early","defaultACLAccess":{},
		"roles":[{"rolename":"s","acls":[]},{"rolename":"r","acls":[]}]}`
}

// references expects no reference to a record that does not exist, and that SQLite verifies the next ones.
func references(t *testing.T, c *Control) {
	t.Helper()
	var broken, enforced int
	must(t, c.store.w.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM pragma_foreign_key_check), foreign_keys FROM pragma_foreign_keys`).Scan(&broken, &enforced))
	if broken != 0 || enforced != 1 {
		t.Errorf("%d references to nothing, enforced %d; want none and 1", broken, enforced)
	}
}

// TestImportOfAnyRows stores clients and memberships that end as most do, and others among them.
func TestImportOfAnyRows(t *testing.T) {
	t.Parallel()
	var clients, members []string
	for i := range 8*rowsAtOnce + 3 {
		more, priority := "", ""
		if i/rowsAtOnce%3 == 1 && i%5 == 0 {
			more = []string{`,"clientid":"c"`, `,"textname":""`, `,"textdescription":"d"`, `,"disabled":true`}[i/5%4]
			priority = fmt.Sprintf(`,"priority":%d`, i%3)
		}
		clients = append(clients, fmt.Sprintf(`{"username":"any-%04d"%s,"roles":[{"rolename":"r"%s}]}`, i, more, priority))
		members = append(members, fmt.Sprintf(`{"username":"any-%04d"%s}`, i, priority))
	}
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	_, err := c.ImportAccess(t.Context(), strings.NewReader(`{"clients":[`+strings.Join(clients, ",")+`],"roles":[{"rolename":"r"}],
		"groups":[{"groupname":"g","clients":[`+strings.Join(members, ",")+`]}],"defaultACLAccess":{}}`), false)
	must(t, err)
	imported := inMemory(t, c)
	for _, want := range []string{`"priority": 2`, `"clientid": "c"`, `"textname": ""`, `"disabled": true`} {
		if !strings.Contains(imported, want) {
			t.Errorf("got no %s", want)
		}
	}
	if diff := cmp.Diff(imported, export(t, c)); diff != "" {
		t.Errorf("memory (-) and file (+):\n%s", diff)
	}
	if diff := cmp.Diff(imported, inMemory(t, restarted(t, c, path))); diff != "" {
		t.Errorf("imported (-) and read at the start (+):\n%s", diff)
	}
}

func TestImportReplacesMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	must(t, c.Bootstrap(t.Context(), "boss", "secret"), c.CreateClient(t.Context(), client("u", "admin")))
	for range 2 { // the second time, over its own records
		_, err := c.ImportAccess(t.Context(), strings.NewReader(manyClients(t, 5*rowsAtOnce+3)), true)
		must(t, err)
		references(t, c)
	}
	c = restarted(t, c, path)
	authenticated(t, c, "many-7")
	if got, err := c.GetClient(t.Context(), "many-8"); err != nil || len(got.Groups) != 1 || got.Groups[0].Priority != 0 || got.Roles[0].RoleName != "s" {
		t.Errorf("got %+v, %v, want it in its group, and role s before r", got, err)
	}
	if _, err := c.GetClient(t.Context(), "u"); broker.KindOf(err) != broker.NotFound {
		t.Errorf("got %v, want that it was replaced", err)
	}
	must(t, c.DeleteRole(t.Context(), "r"))
	references(t, c)
	for _, document := range []string{manyClients(t, 1), `{"groups":[{"groupname":"late","clients":[],"roles":[]}],
		"clients":[{"username":"only","roles":[]}],"defaultACLAccess":{},"roles":[]}`} {
		_, err := c.ImportAccess(t.Context(), strings.NewReader(document), true)
		must(t, err)
		references(t, c)
	}
	if diff := cmp.Diff(export(t, c), inMemory(t, c)); diff != "" {
		t.Errorf("file (-) and memory (+):\n%s", diff)
	}
}

// TestImportFailsAsAWhole makes the file refuse one of many clients.
func TestImportFailsAsAWhole(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateRole(t.Context(), role("r")), c.CreateClient(t.Context(), client("u", "r")))
	before := export(t, c)
	_, err := c.store.w.ExecContext(t.Context(), `CREATE TEMP TRIGGER refuse BEFORE INSERT ON access_clients
		WHEN NEW.username = 'many-9' BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	must(t, err)
	if _, err := c.ImportAccess(t.Context(), strings.NewReader(manyClients(t, 50)), true); err == nil {
		t.Error("the import succeeded")
	}
	if diff := cmp.Diff(before, export(t, c)) + cmp.Diff(before, inMemory(t, c)); diff != "" {
		t.Errorf("something was imported:\n%s", diff)
	}
	references(t, c)
}

// TestManyAndRemoval stores many clients and a removal that another administrator made meanwhile, as one:
// nothing is left of what was removed.
func TestManyAndRemoval(t *testing.T) {
	t.Parallel()
	for name, removal := range map[string]dynsec.Change{
		"client": dynsec.DropClient{Username: "u"}, "group": dynsec.DropGroup{GroupName: "g"}, "role": dynsec.DropRole{RoleName: "r"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fresh(t)
			must(t, c.CreateRole(t.Context(), role("r")), c.CreateGroup(t.Context(), broker.GroupSpec{GroupName: "g", Roles: []broker.RoleRef{{RoleName: "r"}}}))
			u := client("u", "r")
			u.Groups = []broker.GroupRef{{GroupName: "g"}}
			must(t, c.CreateClient(t.Context(), u))
			many := dynsec.PutClients{Each: func(yield func(dynsec.PutClient) bool) {
				yield(dynsec.PutClient{ClientRecord: dynsec.ClientRecord{Username: "new"}, Password: new("")})
			}}
			must(t, c.store.write(t.Context(), batch{changes: []dynsec.Change{many, removal}}))
			references(t, c)
		})
	}
}

// TestImportOfManyIsBounded reads a document that is never in memory as a whole. What is kept of a
// client until the end, and what the broker has of it then, are less than its text.
func TestImportOfManyIsBounded(t *testing.T) {
	const clients, each = 60_000, 90
	c := fresh(t)
	document := &streamed{clients: clients}
	before := liveHeap()
	_, err := c.ImportAccess(t.Context(), document, false)
	must(t, err)
	for what, heap := range map[string]uint64{"when all was read": document.atEnd, "afterwards": liveHeap()} {
		if got := (int64(heap) - int64(before)) / clients; got > each {
			t.Errorf("%d bytes of heap for a client %s, want at most %d", got, what, each)
		}
	}
	if n, _, _ := c.state.Load().Counts(); n != clients {
		t.Errorf("%d clients, want %d", n, clients)
	}
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// streamed is a document with many clients, the last name first. It measures the heap at its end.
type streamed struct {
	clients, written int
	text             bytes.Buffer
	atEnd            uint64
}

// Read implements io.Reader.
func (s *streamed) Read(p []byte) (int, error) {
	if s.text.Len() == 0 {
		s.more()
	}
	if s.text.Len() == 0 {
		s.atEnd = liveHeap()
		return 0, io.EOF
	}
	return s.text.Read(p)
}

// more writes the next part: the clients, and then the members of the group.
func (s *streamed) more() {
	n := s.written
	s.written++
	username := fmt.Sprintf("client-%06d", s.clients-n%s.clients)
	switch {
	case n == 0:
		fmt.Fprintf(&s.text, `{"clients": [{"username": %q, "roles": [{"rolename": "r"}]}`, username)
	case n < s.clients:
		fmt.Fprintf(&s.text, ",\n\t{\"username\": %q, \"roles\": [{\"rolename\": \"r\"}]}", username)
	case n == s.clients:
		fmt.Fprintf(&s.text, `], "roles": [{"rolename": "r"}], "groups": [{"groupname": "g-0", "clients": [{"username": %q}`, username)
	case n < 2*s.clients && n%100 == 0:
		fmt.Fprintf(&s.text, "]},\n\t{\"groupname\": \"g-%d\", \"clients\": [{\"username\": %q}", n, username)
	case n < 2*s.clients:
		fmt.Fprintf(&s.text, ",\n\t{\"username\": %q}", username)
	case n == 2*s.clients:
		s.text.WriteString("]}]}")
	}
}

// TestImportAmongChanges imports while clients are created, deleted, and searched by a part of their names.
func TestImportAmongChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	document := manyClients(t, 100)
	var others sync.WaitGroup
	others.Go(func() {
		for i := range 30 {
			name := fmt.Sprint("Other-", i)
			err := c.CreateClient(t.Context(), broker.ClientSpec{Username: name})
			if i%2 == 0 {
				err = errors.Join(err, ignoreNotFound(c.DeleteClient(t.Context(), name)))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	others.Go(func() {
		for range 200 {
			page, err := c.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: -1, NameContains: "other-",
				Match: broker.MatchFunc(func(broker.Client) bool { return true })})
			if err != nil {
				t.Error(err)
				return
			}
			for cl := range page.Items {
				if !strings.HasPrefix(cl.Username, "Other-") {
					t.Errorf("found %q", cl.Username)
				}
			}
		}
	})
	for i := range 5 {
		if _, err := c.ImportAccess(t.Context(), strings.NewReader(document), i%2 == 0); err != nil {
			t.Error(err)
		}
	}
	others.Wait()
	references(t, c)
	before := export(t, c)
	shut(t, c)
	c = open(t, path)
	if diff := cmp.Diff(before, export(t, c)) + cmp.Diff(before, inMemory(t, c)); diff != "" {
		t.Errorf("before (-) and after (+) the restart:\n%s", diff)
	}
}

// ignoreNotFound returns nil for a client that an import has replaced.
func ignoreNotFound(err error) error {
	if broker.KindOf(err) == broker.NotFound {
		return nil
	}
	return err
}

// TestImportKeepsIndexes imports into an empty broker, for which the indexes are made anew, and beside others.
func TestImportKeepsIndexes(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	indexes := func() (names string) {
		must(t, c.store.bulk.QueryRowContext(t.Context(), `SELECT group_concat(sql ORDER BY name) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`).Scan(&names))
		return names
	}
	before := indexes()
	for range 2 {
		fill(t, c, 100)
		if got := indexes(); got != before || !strings.Contains(got, "access_client_roles_by_role") {
			t.Errorf("got %s, want %s", got, before)
		}
	}
	must(t, c.DeleteRole(t.Context(), "r"))
	if diff := cmp.Diff(inMemory(t, c), export(t, c)); diff != "" {
		t.Errorf("memory (-) and file (+) differ:\n%s", diff)
	}
}
