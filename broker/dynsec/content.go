package dynsec

import (
	"iter"
	"sort"

	"signalbox/broker"
)

// Content is a document as it was read, for [Tx.Import]: the state that it describes, and the hashes
// of its passwords, which a State does not contain.
type Content struct {
	state     *State
	defaults  *Defaults // nil: not specified
	passwords []string  // in the order of the clients, "" for none; nil if no client has one
}

// Document returns the content in the form of a file.
func (c *Content) Document() Document { return c.documentOf(anyClient) }

// documentOf is Document with some of the clients only.
func (c *Content) documentOf(chosen func(username string) bool) Document {
	n := -1
	d := c.state.documentOf(
		func(username string) bool { n++; return chosen(username) },
		func(string) string { return c.password(n) })
	d.Defaults = c.defaults
	return d
}

// password returns the hash of the n-th client's password, "" for none.
func (c *Content) password(n int) string {
	if c.passwords == nil {
		return ""
	}
	return c.passwords[n]
}

// clients yields the changes that put the clients.
func (c *Content) clients() iter.Seq[PutClient] {
	return func(yield func(PutClient) bool) {
		n := 0
		for username, r := range each(c.state.clients, "") {
			put := PutClient{ClientRecord: *r, Password: new(c.password(n))}
			if put.Username = username; !yield(put) {
				return
			}
			n++
		}
	}
}

// builder makes the content of a document from its records, in whatever order these come. A client
// takes little memory until all are known.
type builder struct {
	checker
	clients   newClients
	allRead   bool           // all clients are known, and ordered by name
	groups    []broker.Group // with their members until allRead
	roles     []broker.Role
	defaults  *Defaults
	anonymous string
	index     int64

	shared  *sharing
	joined  []broker.GroupRef // of the client that joins a group
	unknown []string          // the problems of members
}

// newClient is a client of a document, with the groups that it is known to be in. Clients that
// differ only in their names and passwords share their records.
type newClient struct {
	username string
	record   *ClientRecord
}

// newClients orders clients by name. To sort them by a generic function would be 12 KB of program.
type newClients struct {
	list      []newClient
	passwords []string // of the clients of the list; nil if none has one
}

func (c *newClients) add(n newClient, password string) {
	if password != "" && c.passwords == nil {
		c.passwords = make([]string, len(c.list))
	}
	c.list = append(c.list, n)
	if c.passwords != nil {
		c.passwords = append(c.passwords, password)
	}
}

func (c *newClients) Len() int           { return len(c.list) }
func (c *newClients) Less(i, j int) bool { return c.list[i].username < c.list[j].username }
func (c *newClients) Swap(i, j int) {
	c.list[i], c.list[j] = c.list[j], c.list[i]
	if c.passwords != nil {
		c.passwords[i], c.passwords[j] = c.passwords[j], c.passwords[i]
	}
}

func (b *builder) client(c DocumentClient) {
	r := b.shared.nameless(&ClientRecord{ClientID: c.ClientID, TextName: c.TextName, TextDescription: c.TextDescription,
		Disabled: c.Disabled, HasPassword: c.EncodedPassword != "", Roles: c.Roles})
	b.clients.add(newClient{c.Username, r}, c.EncodedPassword)
}

// clientsRead lets the members join the groups that were read before the clients.
func (b *builder) clientsRead() {
	b.allRead = true
	sort.Sort(&b.clients)
	for i := range b.groups {
		b.join(&b.groups[i])
	}
}

func (b *builder) group(g broker.Group) {
	if b.allRead {
		b.join(&g)
	}
	b.groups = append(b.groups, g)
}

// join moves the members of a group to the records of the clients.
func (b *builder) join(g *broker.Group) {
	clients := b.clients.list
	for _, m := range g.Clients {
		i := sort.Search(len(clients), func(i int) bool { return clients[i].username >= m.Username })
		if i == len(clients) || clients[i].username != m.Username {
			b.unknown = append(b.unknown, noMember(g.GroupName, m.Username))
			continue
		}
		r := *clients[i].record
		b.joined = append(append(b.joined[:0], r.Groups...), broker.GroupRef{GroupName: g.GroupName, Priority: m.Priority})
		r.Groups = b.joined
		clients[i].record = b.shared.nameless(&r)
	}
	g.Clients = nil
}

// content returns the content, or an error for all duplicate names and dangling references.
func (b *builder) content() (*Content, error) {
	if !b.allRead {
		b.clientsRead()
	}
	if b.check(); len(b.problems) > 0 {
		return nil, invalidFile(b.problems)
	}
	c := &Content{defaults: b.defaults, passwords: b.clients.passwords}
	r := LoadRecords{AnonymousGroup: b.anonymous, ChangeIndex: b.index, Roles: b.roleRecords(), Groups: b.groupRecords(), Clients: b.clientRecords()}
	var err error
	c.state, err = Load(r)
	return c, err
}

func (b *builder) roleRecords() iter.Seq[RoleRecord] {
	return func(yield func(RoleRecord) bool) {
		for _, r := range b.roles {
			if r.ACLs = orderACLs(r.ACLs); !yield(r) {
				return
			}
		}
	}
}

func (b *builder) groupRecords() iter.Seq[GroupRecord] {
	return func(yield func(GroupRecord) bool) {
		for _, g := range b.groups {
			if !yield(GroupRecord{GroupName: g.GroupName, TextName: g.TextName, TextDescription: g.TextDescription, Roles: g.Roles}) {
				return
			}
		}
	}
}

// clientRecords yields the clients once: it releases their list, which nothing needs while a state is packed.
func (b *builder) clientRecords() iter.Seq[ClientRecord] {
	return func(yield func(ClientRecord) bool) {
		for _, c := range b.clients.list {
			r := *c.record
			if r.Username = c.username; !yield(r) {
				return
			}
		}
		b.clients.list = nil
	}
}
