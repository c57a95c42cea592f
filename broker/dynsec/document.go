package dynsec

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
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
func ParseDocument(b []byte) (Document, []string, error) {
	if i := invalidUTF8(b); i >= 0 {
		line := 1 + bytes.Count(b[:i], []byte{'\n'})
		return Document{}, nil, invalidFile([]string{fmt.Sprintf("line %d: not UTF-8", line)})
	}
	r := newDocReader(b)
	var d Document
	r.object(func(member string) { r.document(&d, member) })
	r.end()
	if r.err == nil && d.Defaults == nil && !r.noDefaults {
		d.Defaults = &Defaults{}
		r.warnings = append(r.warnings, "defaultACLAccess is missing: what no ACL decides about is denied")
	}
	if r.err == nil {
		r.err = d.check()
	}
	if r.err != nil {
		return Document{}, nil, r.err
	}
	d.order()
	return d, r.warnings, nil
}

func (r *docReader) document(d *Document, member string) {
	switch member {
	case "changeindex":
		d.ChangeIndex = max(r.number(0), 0)
	case "defaultaclaccess":
		d.Defaults = r.settings()
	case "clients":
		r.array(func() { d.Clients = append(d.Clients, r.client()) })
	case "groups":
		r.array(func() { d.Groups = append(d.Groups, r.group()) })
	case "roles":
		r.array(func() { d.Roles = append(d.Roles, r.role()) })
	case "anonymousgroup":
		d.AnonymousGroup = r.textOr()
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
	slices.SortFunc(d.Clients, func(a, b DocumentClient) int { return cmp.Compare(a.Username, b.Username) })
	slices.SortFunc(d.Groups, func(a, b broker.Group) int { return cmp.Compare(a.GroupName, b.GroupName) })
	slices.SortFunc(d.Roles, func(a, b broker.Role) int { return cmp.Compare(a.RoleName, b.RoleName) })
	var last []broker.RoleRef
	for i := range d.Clients {
		c := &d.Clients[i]
		if !slices.Equal(c.Roles, last) { // most clients have the roles of the one before
			last = orderRoles(c.Roles)
		}
		c.Roles = last
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
