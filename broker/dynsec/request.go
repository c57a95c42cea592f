package dynsec

import (
	"math"
	"strconv"
	"unicode/utf8"

	"signalbox/broker"
)

// Request is the content of one message on Topic: its commands in order and, if the
// message is faulty, the response that ends the list of responses. The commands before the
// fault must still be run, those after it must not.
type Request struct {
	Commands []Command
	Fault    *Response
}

// DecodeRequest reads a request. It accepts what Mosquitto accepts: case-insensitive
// names of members and commands, the first of several members of one name, any text
// after the JSON value. Arguments are checked when a command is run.
func DecodeRequest(payload []byte) Request {
	commands, fault := decodeBatch(payload, decodeCommand)
	return Request{Commands: commands, Fault: fault}
}

func decodeCommand(v *value) (Command, *Response) {
	name, fault := decodeName(v)
	if fault != nil {
		return Command{}, fault
	}
	c := Command{op: operations[lower(name)], name: name}
	c.correlation, fault = decodeCorrelation(v, c.Name())
	c.args = decodeArguments(v)
	return c, fault
}

func decodeArguments(v *value) arguments {
	return arguments{
		username:        stringArg(v, "username"),
		groupname:       stringArg(v, "groupname"),
		rolename:        stringArg(v, "rolename"),
		password:        stringArg(v, "password"),
		clientID:        stringArg(v, "clientid"),
		textName:        textArg(v, "textname"),
		textDescription: textArg(v, "textdescription"),
		aclType:         stringArg(v, "acltype"),
		topic:           stringArg(v, "topic"),
		priority:        intArg(v, "priority"),
		count:           intArg(v, "count"),
		offset:          intArg(v, "offset"),
		allow:           allowArg(v),
		wildcardSubs:    boolArg(v, "allowwildcardsubs"),
		verbose:         boolArg(v, "verbose"),
		roles:           refsArg(v, "roles", "rolename"),
		groups:          refsArg(v, "groups", "groupname"),
		clients:         refsArg(v, "clients", "username"),
		acls:            listArg(v, "acls", decodeACL),
	}
}

func decodeACL(v *value) aclArg {
	return aclArg{
		aclType:  stringArg(v, "acltype"),
		topic:    stringArg(v, "topic"),
		priority: clamp(intArg(v, "priority").or(0)),
		allow:    allowArg(v),
	}
}

func stringArg(v *value, name string) arg[string] {
	m, ok := v.get(name)
	if !ok || m.kind != textKind {
		return arg[string]{given: ok}
	}
	return given(m.text)
}

// textArg is stringArg for texts that only people read: one that is not UTF-8 could not
// be returned and counts as of a wrong type.
func textArg(v *value, name string) arg[string] {
	a := stringArg(v, name)
	a.good = a.good && utf8.ValidString(a.value)
	return a
}

// intArg truncates fractions.
func intArg(v *value, name string) arg[int] {
	m, ok := v.get(name)
	if !ok || m.kind != numberKind {
		return arg[int]{given: ok}
	}
	f, _ := strconv.ParseFloat(m.text, 64) // out of range is infinity
	return given(int(min(max(f, math.MinInt32), math.MaxInt32)))
}

func boolArg(v *value, name string) arg[bool] {
	m, ok := v.get(name)
	if !ok || m.kind != boolKind {
		return arg[bool]{given: ok}
	}
	return given(m.truth)
}

// allowArg reads "allow": true or "access": "allow", which the first versions of
// mosquitto_ctrl wrote.
func allowArg(v *value) arg[bool] {
	if a := boolArg(v, "allow"); a.good {
		return a
	}
	switch access := stringArg(v, "access").value; {
	case equalFold(access, "allow"):
		return given(true)
	case equalFold(access, "deny"):
		return given(false)
	}
	return arg[bool]{}
}

func listArg[T any](v *value, name string, decode func(*value) T) arg[[]T] {
	m, ok := v.get(name)
	if !ok || m.kind != arrayKind {
		return arg[[]T]{given: ok}
	}
	l := make([]T, len(m.items))
	for i := range m.items {
		l[i] = decode(&m.items[i])
	}
	return given(l)
}

func refsArg(v *value, name, key string) arg[[]ref] {
	return listArg(v, name, func(v *value) ref {
		return ref{name: stringArg(v, key), priority: priorityArg(v)}
	})
}

func priorityArg(v *value) broker.Priority {
	return broker.Priority(clamp(intArg(v, "priority").or(int(broker.NoPriority))))
}
