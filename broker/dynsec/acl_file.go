package dynsec

import (
	"io"
	"strings"

	"signalbox/broker"
)

// Names of the records for the lines of an acl_file that apply to more than one user.
const (
	everybodyName = "acl-everybody" // role and group: the pattern lines
	anonymousName = "acl-anonymous" // role and group: the lines before the first user line
)

// ParseACLFile reads an acl_file of Mosquitto. Each user becomes a client without
// password, with a role of its name; the pattern lines become a role that all these
// clients have through a group, and the lines before the first user line the role of
// the group for clients without username. read becomes publishClientReceive and
// subscribePattern, write publishClientSend; deny becomes all three and precedes what
// allows. The error is a *broker.Error of kind Invalid that names every faulty line.
func ParseACLFile(r io.Reader) (Document, []string, error) {
	f := aclFile{byUser: make(map[string]*roleBuilder)}
	f.current = &f.anonymous
	if err := eachLine(r, &f.checker, f.line); err != nil {
		return Document{}, nil, err
	}
	if len(f.problems) > 0 {
		return Document{}, nil, invalidFile(f.problems)
	}
	d := f.document()
	d.order()
	return d, f.warnings(), nil
}

type aclFile struct {
	checker
	current   *roleBuilder // of the topic lines that follow
	anonymous roleBuilder
	patterns  roleBuilder
	nameless  bool // a pattern applies to clients without username
	users     []string
	byUser    map[string]*roleBuilder
	reads     bool
}

func (f *aclFile) line(n int, line string) {
	word, rest := cutBlank(line)
	switch word {
	case "user":
		f.user(n, rest)
	case "topic":
		f.topic(n, rest)
	case "pattern":
		f.pattern(n, rest)
	default:
		f.add("line %d: %q is none of topic, pattern and user", n, word)
	}
}

func (f *aclFile) user(n int, username string) {
	problem := badName(username)
	switch {
	case problem != "":
		f.add("line %d: the user's name %s", n, problem)
	case username == everybodyName || username == anonymousName:
		f.add("line %d: the name %q is taken by what the import makes of the other lines", n, username)
	default:
		if f.byUser[username] == nil {
			f.byUser[username] = new(roleBuilder)
			f.users = append(f.users, username)
		}
		f.current = f.byUser[username]
	}
}

func (f *aclFile) topic(n int, rest string) {
	access, topic, ok := f.access(n, rest)
	switch {
	case !ok:
	case hasPlaceholder(topic):
		f.add("line %d: %%c and %%u count only in pattern lines, in %q they would be given a meaning", n, topic)
	default:
		f.current.add(access, topic)
	}
}

func (f *aclFile) pattern(n int, rest string) {
	access, topic, ok := f.access(n, rest)
	switch {
	case !ok:
	case partPlaceholder(topic):
		f.add("line %d: %%c and %%u must be a whole level of %q", n, topic)
	default:
		f.patterns.add(access, topic)
		f.nameless = f.nameless || !strings.Contains(topic, "%u")
	}
}

// access splits what follows topic or pattern. Without an access word it is readwrite;
// a topic that contains a blank needs one.
func (f *aclFile) access(n int, rest string) (access, topic string, ok bool) {
	access, topic = cutBlank(rest)
	if topic == "" {
		access, topic = "readwrite", access
	}
	switch {
	case !aclFileAccess[access]:
		f.add("line %d: access %q is none of read, write, readwrite and deny", n, access)
	case topic == "":
		f.add("line %d: the topic is missing", n)
	case !broker.ValidFilter(topic) || !validName(topic):
		f.add("line %d: %q is no topic filter", n, topic)
	default:
		f.reads = f.reads || access == "read" || access == "readwrite"
		return access, topic, true
	}
	return "", "", false
}

var aclFileAccess = map[string]bool{"read": true, "write": true, "readwrite": true, "deny": true}

// document returns the document of all lines.
func (f *aclFile) document() Document {
	var d Document
	everybody := broker.Group{GroupName: everybodyName}
	for _, username := range f.users {
		d.Roles = append(d.Roles, f.byUser[username].role(username))
		d.Clients = append(d.Clients, DocumentClient{Username: username, Roles: held(username)})
		everybody.Clients = append(everybody.Clients, broker.MemberRef{Username: username, Priority: broker.NoPriority})
	}
	anonymous := broker.Group{GroupName: anonymousName}
	if len(f.anonymous.acls) > 0 {
		d.Roles = append(d.Roles, f.anonymous.role(anonymousName))
		anonymous.Roles = held(anonymousName)
	}
	if len(f.patterns.acls) > 0 {
		d.Roles = append(d.Roles, f.patterns.role(everybodyName))
		everybody.Roles = held(everybodyName)
		d.Groups = append(d.Groups, everybody)
	}
	if f.nameless {
		anonymous.Roles = append(anonymous.Roles, held(everybodyName)...)
	}
	if len(anonymous.Roles) > 0 {
		d.Groups = append(d.Groups, anonymous)
		d.AnonymousGroup = anonymousName
	}
	return d
}

func held(rolename string) []broker.RoleRef {
	return []broker.RoleRef{{RoleName: rolename, Priority: broker.NoPriority}}
}

func (f *aclFile) warnings() []string {
	var w []string
	if f.reads {
		w = append(w, "a subscription is now allowed only where its filter lies within what may be read: with an acl_file every subscription was accepted and messages were withheld")
	}
	if len(f.users) > 0 {
		w = append(w, "the clients have no password until one is set or a password_file is imported")
	}
	return w
}

// roleBuilder collects the ACLs of a role. If a type and topic occur twice, a denial
// wins, as in an acl_file.
type roleBuilder struct {
	acls []broker.ACL
	at   map[aclKey]int
}

type aclKey struct {
	t     broker.ACLType
	topic string
}

// Priorities of the ACLs that deny and that allow.
const (
	denyPriority  = 1
	allowPriority = 0
)

func (b *roleBuilder) add(access, topic string) {
	if access != "read" {
		b.put(broker.PublishClientSend, topic, access != "deny")
	}
	if access != "write" {
		b.put(broker.PublishClientReceive, topic, access != "deny")
		b.put(broker.SubscribePattern, topic, access != "deny")
	}
}

func (b *roleBuilder) put(t broker.ACLType, topic string, allow bool) {
	a := broker.ACL{ACLType: t, Topic: topic, Priority: allowPriority, Allow: allow}
	if !allow {
		a.Priority = denyPriority
	}
	if b.at == nil {
		b.at = make(map[aclKey]int)
	}
	i, twice := b.at[aclKey{t, topic}]
	switch {
	case !twice:
		b.at[aclKey{t, topic}] = len(b.acls)
		b.acls = append(b.acls, a)
	case !allow:
		b.acls[i] = a
	}
}

func (b *roleBuilder) role(rolename string) broker.Role {
	return broker.Role{RoleName: rolename, AllowWildcardSubs: true, ACLs: b.acls}
}

// cutBlank splits at the first run of blanks.
func cutBlank(s string) (before, after string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// partPlaceholder reports whether a placeholder is only a part of a level.
func partPlaceholder(filter string) bool {
	for level := range strings.SplitSeq(filter, "/") {
		if !isPlaceholder(level) && (strings.Contains(level, "%c") || strings.Contains(level, "%u")) {
			return true
		}
	}
	return false
}
