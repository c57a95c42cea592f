package dynsec

import (
	"strconv"
	"unicode/utf8"

	"signalbox/broker"
)

// EncodeResponses returns the message for ResponseTopic: one response per command, in
// order, without white space, members in Mosquitto's order.
func EncodeResponses(answers []Response) []byte {
	b := append([]byte(nil), `{"responses":`...)
	b = appendList(b, answers, appendAnswer)
	return append(b, '}')
}

func appendAnswer(b []byte, a Response) []byte {
	b = append(b, `{"command":`...)
	b = appendString(b, a.Command)
	if a.data != nil {
		b = append(b, `,"data":`...)
		b = a.data.appendTo(b)
	}
	if a.Error != "" {
		b = append(b, `,"error":`...)
		b = appendString(b, a.Error)
	}
	b = appendText(b, "correlationData", a.CorrelationData)
	return append(b, '}')
}

func (d singleRecord[T]) appendTo(b []byte) []byte {
	b = append(b, `{"`...)
	b = append(b, d.of.one...)
	b = append(b, `":`...)
	b = d.of.appendTo(b, d.record)
	return append(b, '}')
}

func (d listing[T]) appendTo(b []byte) []byte {
	b = append(b, `{"totalCount":`...)
	b = strconv.AppendInt(b, int64(d.total), 10)
	b = append(b, `,"`...)
	b = append(b, d.of.many...)
	b = append(b, `":`...)
	if d.verbose {
		b = appendList(b, d.records, d.of.appendTo)
	} else {
		b = appendList(b, d.names, appendString)
	}
	return append(b, '}')
}

func (d details) appendTo(b []byte) []byte {
	b = append(b, `{"clientCount":`...)
	b = strconv.AppendInt(b, int64(d.clients), 10)
	b = append(b, `,"groupCount":`...)
	b = strconv.AppendInt(b, int64(d.groups), 10)
	b = append(b, `,"roleCount":`...)
	b = strconv.AppendInt(b, int64(d.roles), 10)
	b = append(b, `,"changeIndex":`...)
	b = strconv.AppendInt(b, d.index, 10)
	return append(b, '}')
}

func (d anonymousGroup) appendTo(b []byte) []byte {
	b = append(b, `{"group":{"groupname":`...)
	b = appendString(b, string(d))
	return append(b, "}}"...)
}

func (d defaultAccess) appendTo(b []byte) []byte {
	b = append(b, `{"acls":`...)
	b = appendList(b, d, appendDefaultACL)
	return append(b, '}')
}

func appendDefaultACL(b []byte, d broker.DefaultACL) []byte {
	b = append(b, `{"acltype":`...)
	b = appendString(b, d.ACLType)
	b = append(b, `,"allow":`...)
	b = strconv.AppendBool(b, d.Allow)
	return append(b, '}')
}

func appendClient(b []byte, c broker.Client) []byte {
	b = append(b, `{"username":`...)
	b = appendString(b, c.Username)
	if c.ClientID != "" {
		b = appendText(b, "clientid", &c.ClientID)
	}
	b = appendText(b, "textname", c.TextName)
	b = appendText(b, "textdescription", c.TextDescription)
	if c.Disabled {
		b = append(b, `,"disabled":true`...)
	}
	b = append(b, `,"roles":`...)
	b = appendList(b, c.Roles, appendRoleRef)
	b = append(b, `,"groups":`...)
	b = appendList(b, c.Groups, appendGroupRef)
	b = append(b, `,"connections":`...)
	b = appendList(b, c.Connections, appendConnection)
	return append(b, '}')
}

func appendGroup(b []byte, g broker.Group) []byte {
	b = append(b, `{"groupname":`...)
	b = appendString(b, g.GroupName)
	b = appendText(b, "textname", g.TextName)
	b = appendText(b, "textdescription", g.TextDescription)
	b = append(b, `,"clients":`...)
	b = appendList(b, g.Clients, appendMemberRef)
	b = append(b, `,"roles":`...)
	b = appendList(b, g.Roles, appendRoleRef)
	return append(b, '}')
}

func appendRole(b []byte, r broker.Role) []byte {
	b = append(b, `{"rolename":`...)
	b = appendString(b, r.RoleName)
	b = appendText(b, "textname", r.TextName)
	b = appendText(b, "textdescription", r.TextDescription)
	b = append(b, `,"allowwildcardsubs":`...)
	b = strconv.AppendBool(b, r.AllowWildcardSubs)
	b = append(b, `,"acls":`...)
	b = appendList(b, r.ACLs, appendACL)
	return append(b, '}')
}

func appendACL(b []byte, a broker.ACL) []byte {
	b = append(b, `{"acltype":`...)
	b = appendString(b, string(a.ACLType))
	b = append(b, `,"topic":`...)
	b = appendString(b, a.Topic)
	b = append(b, `,"priority":`...)
	b = strconv.AppendInt(b, int64(a.Priority), 10)
	b = append(b, `,"allow":`...)
	b = strconv.AppendBool(b, a.Allow)
	return append(b, '}')
}

func appendRoleRef(b []byte, r broker.RoleRef) []byte {
	return appendRef(b, "rolename", r.RoleName, r.Priority)
}

func appendGroupRef(b []byte, g broker.GroupRef) []byte {
	return appendRef(b, "groupname", g.GroupName, g.Priority)
}

func appendMemberRef(b []byte, m broker.MemberRef) []byte {
	return appendRef(b, "username", m.Username, m.Priority)
}

func appendRef(b []byte, key, name string, p broker.Priority) []byte {
	b = append(b, `{"`...)
	b = append(b, key...)
	b = append(b, `":`...)
	b = appendString(b, name)
	if p != broker.NoPriority {
		b = append(b, `,"priority":`...)
		b = strconv.AppendInt(b, int64(p), 10)
	}
	return append(b, '}')
}

func appendConnection(b []byte, c broker.Connection) []byte {
	b = append(b, `{"address":`...)
	b = appendString(b, c.Address)
	return append(b, '}')
}

// appendText appends a further member with a text, if it is not nil.
func appendText(b []byte, name string, s *string) []byte {
	if s == nil {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendString(b, *s)
}

func appendList[T any](b []byte, items []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, v)
	}
	return append(b, ']')
}

// appendString appends a JSON string and escapes only what must be escaped, as
// Mosquitto does. What is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = appendControl(b, byte(r))
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

func appendControl(b []byte, c byte) []byte {
	switch c {
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
