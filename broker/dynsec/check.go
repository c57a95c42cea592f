package dynsec

import (
	"fmt"
	"strings"

	"signalbox/broker"
)

// Check returns an error of kind Invalid, which names the arguments, if a command
// contains text that this package would refuse. Mosquitto 2.0 does not: it truncates a
// text at U+0000, so that the command would apply to another client.
func (c Command) Check() error {
	var bad []broker.Field
	check := func(path, text string) {
		if !validName(text) {
			bad = append(bad, broker.Field{Path: path, Msg: "must be text without control characters, of at most 65535 bytes"})
		}
	}
	a := &c.args
	check("username", a.username.value)
	check("groupname", a.groupname.value)
	check("rolename", a.rolename.value)
	check("clientid", a.clientID.value)
	check("topic", a.topic.value)
	for i, r := range a.roles.value {
		check(fmt.Sprintf("roles[%d].rolename", i), r.name.value)
	}
	for i, g := range a.groups.value {
		check(fmt.Sprintf("groups[%d].groupname", i), g.name.value)
	}
	for i, m := range a.clients.value {
		check(fmt.Sprintf("clients[%d].username", i), m.name.value)
	}
	for i, acl := range a.acls.value {
		check(fmt.Sprintf("acls[%d].topic", i), acl.topic.value)
	}
	for path, text := range map[string]string{"password": a.password.value, "textname": a.textName.value, "textdescription": a.textDescription.value} {
		if strings.IndexByte(text, 0) >= 0 {
			bad = append(bad, broker.Field{Path: path, Msg: "must not hold U+0000"})
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return &broker.Error{Kind: broker.Invalid, Op: c.name, Fields: bad, Msg: bad[0].Path + ": " + bad[0].Msg}
}

// RemoveClientRole returns the command of this name.
func RemoveClientRole(username, rolename string) Command {
	return command(opRemoveClientRole, arguments{username: given(username), rolename: given(rolename)})
}

// RemoveGroupRole returns the command of this name.
func RemoveGroupRole(groupname, rolename string) Command {
	return command(opRemoveGroupRole, arguments{groupname: given(groupname), rolename: given(rolename)})
}
