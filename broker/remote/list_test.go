package remote

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

// names collects the names of a page of clients.
func names(t testing.TB, p broker.Page[broker.Client]) (all []string) {
	t.Helper()
	for c, err := range p.Items {
		if err != nil {
			t.Fatalf("read the list: %v", err)
		}
		all = append(all, c.Username)
	}
	return all
}

// withManyClients returns a Mosquitto with many clients, u000000 and so on beside the admin,
// every tenth of them with a text name.
func withManyClients(t testing.TB, n int) *brokertest.Server {
	t.Helper()
	admin := brokertest.DocumentClient{Username: "admin",
		Roles: []broker.RoleRef{{RoleName: "admin", Priority: broker.NoPriority}}}
	admin.SetPassword(t, "pw")
	doc := brokertest.Document{Clients: []brokertest.DocumentClient{admin},
		Groups: []brokertest.DocumentGroup{}, Roles: []broker.Role{brokertest.AdminRole("admin")}}
	for i := range n {
		doc.Clients = append(doc.Clients, brokertest.DocumentClient{Username: fmt.Sprintf("u%06d", i)})
	}
	server := brokertest.Mosquitto(t, brokertest.WithDynsec(doc.JSON(t)))
	server.AdminPassword = "pw"
	return server
}

func TestListClients(t *testing.T) {
	t.Parallel()
	const n = 2500
	b := connected(t, withManyClients(t, n).Target())
	ten := broker.MatchFunc(func(c broker.Client) bool { return strings.HasSuffix(c.Username, "0") })
	for name, c := range map[string]struct {
		options     broker.ListOptions[broker.Client]
		total, len  int
		first, last string
	}{
		"all":                         {broker.ListOptions[broker.Client]{Count: -1}, n + 1, n + 1, "admin", "u002499"},
		"all names":                   {broker.ListOptions[broker.Client]{Count: -1, NamesOnly: true}, n + 1, n + 1, "admin", "u002499"},
		"a part within a page":        {broker.ListOptions[broker.Client]{Offset: 11, Count: 3}, n + 1, 3, "u000010", "u000012"},
		"a part over several pages":   {broker.ListOptions[broker.Client]{Offset: 1, Count: 2400}, n + 1, 2400, "u000000", "u002399"},
		"a part that ends early":      {broker.ListOptions[broker.Client]{Offset: 2500, Count: 10}, n + 1, 1, "u002499", "u002499"},
		"none":                        {broker.ListOptions[broker.Client]{Count: 0}, n + 1, 0, "", ""},
		"none past the end":           {broker.ListOptions[broker.Client]{Offset: 9999, Count: -1}, n + 1, 0, "", ""},
		"matches":                     {broker.ListOptions[broker.Client]{Count: -1, Match: ten}, 250, 250, "u000000", "u002490"},
		"a part of the matches":       {broker.ListOptions[broker.Client]{Offset: 240, Count: 5, Match: ten}, 250, 5, "u002400", "u002440"},
		"names of matches":            {broker.ListOptions[broker.Client]{Offset: 249, Count: 5, Match: ten, NamesOnly: true}, 250, 1, "u002490", "u002490"},
		"none of the matches":         {broker.ListOptions[broker.Client]{Count: 0, Match: ten}, 250, 0, "", ""},
		"past the end of the matches": {broker.ListOptions[broker.Client]{Offset: 250, Count: -1, Match: ten}, 250, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := b.ListClients(t.Context(), c.options)
			if err != nil {
				t.Fatal(err)
			}
			got := names(t, page)
			if page.Total != c.total || len(got) != c.len {
				t.Fatalf("%d of %d clients, want %d of %d", len(got), page.Total, c.len, c.total)
			}
			if c.len > 0 && (got[0] != c.first || got[c.len-1] != c.last) {
				t.Errorf("from %q to %q, want from %q to %q", got[0], got[c.len-1], c.first, c.last)
			}
		})
	}
	t.Run("reading may stop early", func(t *testing.T) {
		t.Parallel()
		page, err := b.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: -1})
		if err != nil {
			t.Fatal(err)
		}
		for range page.Items {
			break
		}
	})
	t.Run("what Mosquitto 2.0 leaves out has its default", func(t *testing.T) {
		t.Parallel()
		c, err := b.GetClient(t.Context(), "u000001")
		if err != nil || c.Connections == nil || c.Roles == nil || c.Groups == nil || c.Disabled {
			t.Errorf("GetClient() = %+v, %v", c, err)
		}
		roles, err := b.ListRoles(t.Context(), broker.ListOptions[broker.Role]{Count: -1})
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range roles.Items {
			if err != nil || !r.AllowWildcardSubs {
				t.Errorf("role %+v, %v", r, err)
			}
		}
	})
}
