package dynsec

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"unicode/utf8"

	"signalbox/broker"
)

// Document is a whole access-control configuration in the form of a file. One from a
// parser of this package is valid: names are set and unique, and references are to
// roles, clients and groups in the document; records are ordered by name, memberships
// and ACLs in order of evaluation.
type Document struct {
	ChangeIndex    int64
	Defaults       *Defaults // nil: not specified
	Clients        []DocumentClient
	Groups         []broker.Group // Clients have the priorities of the groups
	AnonymousGroup string         // "" for none
	Roles          []broker.Role
}

// DocumentClient is a client's record in a file. Its groups are in the records of the
// groups.
type DocumentClient struct {
	Username        string
	ClientID        string // the only MQTT client id it may use; "" for any
	TextName        *string
	TextDescription *string
	Disabled        bool
	Roles           []broker.RoleRef
	EncodedPassword string // a hash that [VerifyPassword] accepts; "" for none
}

// ParseDocument reads a dynamic-security.json of Mosquitto 2.0 or 2.1. Names of members
// are case-insensitive. Members without a meaning here, and other harmless deviations,
// are warnings: sentences that begin with the line. A fault that would change the
// meaning of the file is a *broker.Error of kind Invalid that names the line and the
// member, or the records.
func ParseDocument(from io.Reader) (*Content, []string, error) {
	r := newDocReader(from)
	b := &builder{shared: newSharing()}
	r.object(func(member string) { r.document(b, member) })
	r.end()
	if r.err != nil {
		return nil, nil, r.err
	}
	if b.defaults == nil && !r.noDefaults {
		b.defaults = &Defaults{}
		r.warnings = append(r.warnings, "defaultACLAccess is missing: what no ACL decides about is denied")
	}
	c, err := b.content()
	if err != nil {
		return nil, nil, err
	}
	return c, r.warnings, nil
}

func (r *docReader) document(b *builder, member string) {
	switch member {
	case "changeindex":
		b.index = max(r.number(0), 0)
	case "defaultaclaccess":
		b.defaults = r.settings()
	case "clients":
		r.array(func() { b.client(r.client()) })
		b.clientsRead()
	case "groups":
		r.array(func() { b.group(r.group()) })
	case "roles":
		r.array(func() { b.roles = append(b.roles, r.role()) })
	case "anonymousgroup":
		b.anonymous = r.textOr()
	default:
		r.skip()
	}
}

// settings reads the default access; null leaves it unspecified.
func (r *docReader) settings() *Defaults {
	d := &Defaults{}
	if null := !r.object(func(member string) { r.defaults(d, member) }); null {
		r.noDefaults = true
		return nil
	}
	return d
}

func (r *docReader) defaults(d *Defaults, member string) {
	switch member {
	case "publishclientsend":
		d.PublishClientSend = r.flag(false)
	case "publishclientreceive":
		d.PublishClientReceive = r.flag(false)
	case "subscribe":
		d.Subscribe = r.flag(false)
	case "unsubscribe":
		d.Unsubscribe = r.flag(false)
	default:
		r.skip()
	}
}

// order sorts records by name, and memberships and ACLs in order of evaluation.
func (d *Document) order() {
	sort.Slice(d.Clients, func(i, j int) bool { return d.Clients[i].Username < d.Clients[j].Username })
	sort.Slice(d.Groups, func(i, j int) bool { return d.Groups[i].GroupName < d.Groups[j].GroupName })
	sort.Slice(d.Roles, func(i, j int) bool { return d.Roles[i].RoleName < d.Roles[j].RoleName })
	for i := range d.Clients {
		d.Clients[i].Roles = orderRoles(d.Clients[i].Roles)
	}
	for i := range d.Groups {
		d.Groups[i].Roles = orderRoles(d.Groups[i].Roles)
		slices.SortFunc(d.Groups[i].Clients, func(a, b broker.MemberRef) int { return cmp.Compare(a.Username, b.Username) })
	}
	for i := range d.Roles {
		d.Roles[i].ACLs = orderACLs(d.Roles[i].ACLs)
	}
}

// badName returns why a string is not a valid name, or "".
func badName(s string) string {
	switch {
	case s == "":
		return "must not be empty"
	case !validName(s):
		return fmt.Sprintf("must be at most %d bytes of text without control characters", maxTopicBytes)
	}
	return ""
}

// invalidUTF8 returns the position of the first byte that is not UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
