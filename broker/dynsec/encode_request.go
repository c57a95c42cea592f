package dynsec

import (
	"strconv"
)

// EncodeRequest returns the message with the commands. It never contains null, which
// Mosquitto treats as a value of a wrong type.
func EncodeRequest(commands []Command) []byte {
	b := append([]byte(nil), `{"commands":`...)
	b = appendList(b, commands, appendCommand)
	return append(b, '}')
}

func appendCommand(b []byte, c Command) []byte {
	a := &c.args
	b = append(b, `{"command":`...)
	b = appendString(b, c.Name())
	b = appendText(b, "username", a.username.ptr())
	b = appendText(b, "groupname", a.groupname.ptr())
	b = appendText(b, "rolename", a.rolename.ptr())
	b = appendText(b, "password", a.password.ptr())
	b = appendText(b, "clientid", a.clientID.ptr())
	b = appendText(b, "textname", a.textName.ptr())
	b = appendText(b, "textdescription", a.textDescription.ptr())
	b = appendText(b, "acltype", a.aclType.ptr())
	b = appendText(b, "topic", a.topic.ptr())
	b = appendArg(b, "priority", a.priority, appendInt)
	b = appendArg(b, "allow", a.allow, strconv.AppendBool)
	b = appendArg(b, "allowwildcardsubs", a.wildcardSubs, strconv.AppendBool)
	b = appendArg(b, "verbose", a.verbose, strconv.AppendBool)
	b = appendArg(b, "count", a.count, appendInt)
	b = appendArg(b, "offset", a.offset, appendInt)
	b = appendRefs(b, "roles", "rolename", a.roles)
	b = appendRefs(b, "groups", "groupname", a.groups)
	b = appendRefs(b, "clients", "username", a.clients)
	b = appendArg(b, "acls", a.acls, func(b []byte, l []aclArg) []byte { return appendList(b, l, appendACLArg) })
	b = appendText(b, "correlationData", c.correlation)
	return append(b, '}')
}

// appendArg appends a further member, if the argument is present.
func appendArg[T any](b []byte, name string, a arg[T], put func([]byte, T) []byte) []byte {
	if !a.good {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return put(b, a.value)
}

func appendRefs(b []byte, name, key string, a arg[[]ref]) []byte {
	return appendArg(b, name, a, func(b []byte, l []ref) []byte {
		return appendList(b, l, func(b []byte, r ref) []byte { return appendRef(b, key, r.name.value, r.priority) })
	})
}

// appendACLArg appends an entry of a role's ACLs or of the default access, which
// has neither topic nor priority.
func appendACLArg(b []byte, a aclArg) []byte {
	b = append(b, `{"acltype":`...)
	b = appendString(b, a.aclType.value)
	if a.topic.good {
		b = appendText(b, "topic", &a.topic.value)
		b = append(b, `,"priority":`...)
		b = appendInt(b, a.priority)
	}
	b = appendArg(b, "allow", a.allow, strconv.AppendBool)
	return append(b, '}')
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
