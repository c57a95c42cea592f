package dynsec

import (
	"strconv"

	"github.com/tidwall/btree"

	"signalbox/broker"
)

// clients is a tree of the clients by name. Its records are without their names, so that
// clients which differ in nothing else share one: the devices of a fleet usually do.
type clients = btree.Map[string, *ClientRecord]

// client returns a copy of a client's record, with its name.
func (s *State) client(username string) (*ClientRecord, bool) {
	r, ok := s.clients.Get(username)
	if !ok {
		return nil, false
	}
	c := *r
	c.Username = username
	return &c, true
}

// sharing finds equal records among many. A nil one shares nothing.
type sharing struct {
	records map[string]*ClientRecord // by their flags and lists; without client id and texts
	key     []byte
}

func newSharing() *sharing { return &sharing{records: map[string]*ClientRecord{}} }

// nameless returns the record of a client as the tree of clients has it. Lists are copied.
func (s *sharing) nameless(c *ClientRecord) *ClientRecord {
	if s == nil {
		r := *c
		r.Username = ""
		return &r
	}
	r, ok := s.find(c)
	if !ok {
		r = s.add(c.sharable())
	}
	return r.with(c)
}

// sharable returns what the record may have in common with many others: all but its names and its texts,
// unless these are empty. Lists are copied.
func (c *ClientRecord) sharable() ClientRecord {
	r := ClientRecord{Disabled: c.Disabled, HasPassword: c.HasPassword, Roles: orderRoles(c.Roles), Groups: orderGroups(c.Groups)}
	if isEmpty(c.TextName) {
		r.TextName = new(string)
	}
	if isEmpty(c.TextDescription) {
		r.TextDescription = new(string)
	}
	return r
}

// isEmpty reports whether a text is there and empty.
func isEmpty(text *string) bool { return text != nil && *text == "" }

// with returns the record, or a copy with another record's client id and texts if it has any.
func (c *ClientRecord) with(own *ClientRecord) *ClientRecord {
	if own.ClientID == "" && sameText(c.TextName, own.TextName) && sameText(c.TextDescription, own.TextDescription) {
		return c
	}
	r := *c
	r.ClientID, r.TextName, r.TextDescription = own.ClientID, own.TextName, own.TextDescription
	return &r
}

// find returns the record that was added for flags and lists like these.
func (s *sharing) find(c *ClientRecord) (*ClientRecord, bool) {
	s.key = appendKey(s.key[:0], c)
	r, ok := s.records[string(s.key)]
	return r, ok
}

// add adds the record for the flags and lists that find was called with.
func (s *sharing) add(r ClientRecord) *ClientRecord {
	s.records[string(s.key)] = &r
	return &r
}

// appendKey appends flags and lists. A length before each name keeps two lists apart, whatever the
// names are: clients that share a record have the same rights.
func appendKey(b []byte, c *ClientRecord) []byte {
	b = strconv.AppendBool(strconv.AppendBool(b, c.Disabled), c.HasPassword)
	b = strconv.AppendBool(strconv.AppendBool(b, isEmpty(c.TextName)), isEmpty(c.TextDescription))
	b = strconv.AppendInt(b, int64(len(c.Roles)), 10)
	for _, ref := range c.Roles {
		b = appendReference(b, ref.RoleName, ref.Priority)
	}
	for _, ref := range c.Groups {
		b = appendReference(b, ref.GroupName, ref.Priority)
	}
	return b
}

func appendReference(b []byte, name string, p broker.Priority) []byte {
	b = append(strconv.AppendInt(append(b, ' '), int64(len(name)), 10), ' ')
	return strconv.AppendInt(append(append(b, name...), ' '), int64(p), 10)
}

// packed returns a copy of a tree that was just loaded. Its nodes have the size of their content:
// those of the original, which were split while it grew, occupy twice as much.
func packed[V any](m *btree.Map[string, V]) *btree.Map[string, V] {
	m = fork(m)
	m.ScanMut(func(string, V) bool { return true })
	return m
}
