package dynsec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

// randomDocument returns a document with some of a few names. What has the same name in two of them may
// differ, but never contradicts.
func randomDocument(r *rand.Rand, everybody bool) Document {
	var d Document
	for i := range 4 {
		d.Roles = append(d.Roles, broker.Role{RoleName: fmt.Sprint("r", i), ACLs: []broker.ACL{}})
	}
	roles := func() (refs []broker.RoleRef) {
		for i := range 4 {
			if r.IntN(3) == 0 {
				refs = append(refs, broker.RoleRef{RoleName: fmt.Sprint("r", i), Priority: broker.Priority(r.IntN(2))})
			}
		}
		return refs
	}
	for i := range 3 {
		if r.IntN(2) == 0 {
			d.Groups = append(d.Groups, broker.Group{GroupName: fmt.Sprint("g", i), Roles: roles()})
		}
	}
	if everybody && r.IntN(2) == 0 {
		d.Groups = append(d.Groups, broker.Group{GroupName: everybodyName, Roles: roles()})
	}
	for i := range 8 {
		if r.IntN(2) == 0 {
			continue
		}
		c := DocumentClient{Username: fmt.Sprint("c", i), Disabled: r.IntN(4) == 0, Roles: roles()}
		if r.IntN(2) == 0 {
			c.EncodedPassword = "$7$1$" + c.Username
		}
		if r.IntN(2) == 0 {
			c.TextName = ptr([]string{"", "Client", c.Username}[r.IntN(3)])
		}
		d.Clients = append(d.Clients, c)
		for g := range d.Groups {
			if r.IntN(3) == 0 {
				d.Groups[g].Clients = append(d.Groups[g].Clients, broker.MemberRef{Username: c.Username, Priority: broker.Priority(r.IntN(2))})
			}
		}
	}
	return d
}

// TestImportMergesAsDocuments imports a document beside another one: the state is that of an import of both
// merged, although only the clients that both have are merged as documents.
func TestImportMergesAsDocuments(t *testing.T) {
	t.Parallel()
	random := suite.Rand(t)
	for range 500 {
		everybody := random.IntN(4) == 0
		a, b := randomDocument(random, everybody), randomDocument(random, everybody)
		password := func(username string) string { return "$7$1$" + username }
		first, _, _ := importInto(t, NewState(), a, false)
		tx := first.Begin()
		c, err := contentOf(b)
		if err != nil {
			t.Fatal(err)
		}
		before := first.Document(password)
		if _, err := tx.Import(c, false, password); err != nil {
			t.Fatal(err)
		}
		got, changes, _ := tx.End()
		checkChanges(t, "import", first, got, changes)
		checkIndexes(t, got)
		if diff := gocmp.Diff(before, first.Document(password)); diff != "" {
			t.Fatalf("the state before was changed (-want +got):\n%s", diff)
		}
		merged, err := a.merge(b)
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ := importInto(t, NewState(), merged, false)
		d, w := got.Document(password), want.Document(password)
		d.ChangeIndex, w.ChangeIndex = 0, 0
		if diff := gocmp.Diff(w, d); diff != "" {
			t.Fatalf("%+v beside %+v (-want +got):\n%s", b, a, diff)
		}
	}
}
