package dynsec

import (
	"signalbox/broker"
)

// DecodeResponses reads a message from ResponseTopic. It accepts the responses of all
// versions of Mosquitto: a member that an older one omits gets the value that is in
// effect there. A broker without dynamic security responds on the topic as well, which
// is an error of kind Unsupported; any other message is an error of kind Internal.
func DecodeResponses(payload []byte) ([]Response, error) {
	v, err := parseJSON(payload)
	if err != nil {
		return nil, &broker.Error{Kind: broker.Internal, Msg: "the broker's answer is not JSON", Err: err}
	}
	responses, ok := v.get("responses")
	if _, refused := v.get("error"); refused && !ok {
		return nil, broker.NotSupported("", broker.CapDynamicSecurity)
	}
	if !ok || responses.kind != arrayKind {
		return nil, &broker.Error{Kind: broker.Internal, Msg: "the broker's answer holds no responses"}
	}
	answers := make([]Response, len(responses.items))
	for i := range responses.items {
		answers[i] = decodeAnswer(&responses.items[i])
	}
	return answers, nil
}

func decodeAnswer(v *value) Response {
	a := Response{
		Command:         stringArg(v, "command").value,
		Error:           stringArg(v, "error").value,
		CorrelationData: stringArg(v, "correlationData").ptr(),
	}
	if d, ok := v.get("data"); ok {
		a.data = decodeData(a.Command, d)
	}
	return a
}

// decodeData reads the data of the commands that this package has a method for.
func decodeData(command string, v *value) payload {
	switch lower(command) {
	case "getclient":
		return decodeOne(clientNoun, v)
	case "getgroup":
		return decodeOne(groupNoun, v)
	case "getrole":
		return decodeOne(roleNoun, v)
	case "listclients":
		return decodeListing(clientNoun, v)
	case "listgroups":
		return decodeListing(groupNoun, v)
	case "listroles":
		return decodeListing(roleNoun, v)
	case "getdefaultaclaccess":
		return defaultAccess(listArg(v, "acls", decodeDefaultACL).value)
	case "getanonymousgroup":
		g, _ := v.get("group")
		return anonymousGroup(stringArg(orNull(g), "groupname").value)
	case "getdetails":
		return decodeDetails(v)
	}
	return nil
}

func orNull(v *value) *value {
	if v == nil {
		return &value{}
	}
	return v
}

func decodeOne[T any](of *recordType[T], v *value) payload {
	r, ok := v.get(of.one)
	if !ok {
		return nil
	}
	return singleRecord[T]{of: of, record: of.decode(r)}
}

// decodeListing reads names or records, whichever the list contains.
func decodeListing[T any](of *recordType[T], v *value) payload {
	items, ok := v.get(of.many)
	if !ok || items.kind != arrayKind {
		return nil
	}
	d := listing[T]{of: of, total: intArg(v, "totalCount").or(len(items.items))}
	for i := range items.items {
		if item := &items.items[i]; item.kind == textKind {
			d.names = append(d.names, item.text)
		} else {
			d.verbose = true
			d.records = append(d.records, of.decode(item))
		}
	}
	return d
}

func decodeDetails(v *value) payload {
	return details{
		clients: intArg(v, "clientCount").value,
		groups:  intArg(v, "groupCount").value,
		roles:   intArg(v, "roleCount").value,
		index:   int64(intArg(v, "changeIndex").value),
	}
}

func decodeDefaultACL(v *value) broker.DefaultACL {
	return broker.DefaultACL{ACLType: stringArg(v, "acltype").value, Allow: allowArg(v).value}
}

func decodeClient(v *value) broker.Client {
	return broker.Client{
		Username:        stringArg(v, "username").value,
		ClientID:        stringArg(v, "clientid").value,
		TextName:        textArg(v, "textname").ptr(),
		TextDescription: textArg(v, "textdescription").ptr(),
		Disabled:        boolArg(v, "disabled").value,
		Roles:           roleRefs(refsArg(v, "roles", "rolename").value),
		Groups:          groupRefs(refsArg(v, "groups", "groupname").value),
		Connections:     list(listArg(v, "connections", decodeConnection).value),
	}
}

func decodeConnection(v *value) broker.Connection {
	return broker.Connection{Address: stringArg(v, "address").value}
}

func decodeGroup(v *value) broker.Group {
	return broker.Group{
		GroupName:       stringArg(v, "groupname").value,
		TextName:        textArg(v, "textname").ptr(),
		TextDescription: textArg(v, "textdescription").ptr(),
		Clients:         memberRefs(refsArg(v, "clients", "username").value),
		Roles:           roleRefs(refsArg(v, "roles", "rolename").value),
	}
}

// decodeRole decodes a role. A version without allowwildcardsubs allows them.
func decodeRole(v *value) broker.Role {
	args := listArg(v, "acls", decodeACL).value
	acls := make([]broker.ACL, len(args))
	for i, a := range args {
		t, _ := parseACLType(a.aclType.value)
		acls[i] = broker.ACL{ACLType: t, Topic: a.topic.value, Priority: a.priority, Allow: a.allow.value}
	}
	return broker.Role{
		RoleName:          stringArg(v, "rolename").value,
		TextName:          textArg(v, "textname").ptr(),
		TextDescription:   textArg(v, "textdescription").ptr(),
		AllowWildcardSubs: boolArg(v, "allowwildcardsubs").or(true),
		ACLs:              acls,
	}
}

func roleRefs(refs []ref) []broker.RoleRef {
	l := make([]broker.RoleRef, len(refs))
	for i, r := range refs {
		l[i] = broker.RoleRef{RoleName: r.name.value, Priority: r.priority}
	}
	return l
}

func groupRefs(refs []ref) []broker.GroupRef {
	l := make([]broker.GroupRef, len(refs))
	for i, r := range refs {
		l[i] = broker.GroupRef{GroupName: r.name.value, Priority: r.priority}
	}
	return l
}

func memberRefs(refs []ref) []broker.MemberRef {
	l := make([]broker.MemberRef, len(refs))
	for i, r := range refs {
		l[i] = broker.MemberRef{Username: r.name.value, Priority: r.priority}
	}
	return l
}
