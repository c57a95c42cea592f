package site

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"signalbox/broker"
)

// Export returns what a service has, of one project or of all, and of one broker or of all:
// "" stands for all. What a broker does not support or does not answer is left out; warn is
// called with the part and the cause. Secrets are references to variables of the environment.
func Export(ctx context.Context, api API, projectName, brokerName string, warn func(part string, err error)) (*Document, error) {
	projects, err := readProjects(ctx, api, func(name string) bool { return projectName == "" || projectName == name })
	if err != nil {
		return nil, err
	}
	d, x := &Document{Version: 1, Projects: []Project{}}, &export{api: api, warn: warn, used: map[string]bool{}}
	for _, name := range sorted(projects) {
		if projectName != "" && projectName != name && projectName != projects[name].ID {
			continue
		}
		p, err := x.project(ctx, projects[name], brokerName)
		if err != nil {
			return nil, err
		}
		if brokerName == "" || len(p.Brokers) > 0 {
			d.Projects = append(d.Projects, *p)
		}
	}
	if len(d.Projects) == 0 && projectName+brokerName != "" {
		return nil, &NotFoundError{"nothing has the name of the project or broker"}
	}
	return d, nil
}

// export writes a document.
type export struct {
	api  API
	warn func(part string, err error)
	used map[string]bool // variables of the environment
}

// As returns a document of one broker as one of a broker with another name, of which only
// the access control is declared, all of it.
func (d *Document) As(name string) *Document {
	p, none := d.Projects[0], ""
	from := p.Brokers[0]
	for i := range from.Roles {
		r := &from.Roles[i]
		r.TextName, r.TextDescription = or(r.TextName, &none), or(r.TextDescription, &none)
	}
	for i := range from.Groups {
		g := &from.Groups[i]
		g.TextName, g.TextDescription = or(g.TextName, &none), or(g.TextDescription, &none)
	}
	for i := range from.Clients {
		c := &from.Clients[i]
		c.TextName, c.TextDescription = or(c.TextName, &none), or(c.TextDescription, &none)
	}
	return &Document{Version: d.Version, Projects: []Project{{Name: p.Name, Brokers: []Broker{{Name: name,
		DefaultACL: from.DefaultACL, AnonymousGroup: from.AnonymousGroup, Roles: from.Roles, Groups: from.Groups, Clients: from.Clients}}}}}
}

// NotFoundError is a name of something that the service does not have.
type NotFoundError struct{ text string }

// Error names what does not exist.
func (e *NotFoundError) Error() string { return e.text }

func (x *export) project(ctx context.Context, p project, brokerName string) (*Project, error) {
	out := &Project{Name: p.Name}
	brokers, err := readBrokers(ctx, x.api, p, func(name string) bool { return brokerName == "" || brokerName == name })
	if err != nil {
		return nil, err
	}
	if brokerName == "" {
		out.Description, out.Members, out.Brokers = &p.Description, []Member{}, []Broker{}
		r, members := reader{api: x.api}, []memberRecord{}
		r.get(ctx, p.path("/members"), nil, &members)
		if r.err != nil {
			return nil, r.err
		}
		for _, m := range members {
			out.Members = append(out.Members, Member{Email: m.Email, Role: m.Role})
		}
		out.Clusters = x.clusters(ctx, p, brokers)
	}
	for _, name := range sorted(brokers) {
		if b := brokers[name]; brokerName == "" || brokerName == name || brokerName == b.ID {
			declared := x.broker(ctx, p, b)
			if slices.ContainsFunc(out.Clusters, func(c Cluster) bool { return slices.Contains(names(c.Nodes, Node.name), name) }) {
				declared.HA, declared.ClusterMode = nil, nil // they follow from the cluster
			}
			out.Brokers = append(out.Brokers, declared)
		}
	}
	return out, nil
}

// AccessControl is the part of a broker that not every broker has.
const AccessControl = "access control"

// broker returns a broker with what can be read of it.
func (x *export) broker(ctx context.Context, p project, b managed) Broker {
	out := Broker{Name: b.Name}
	if b.Type != onPremise {
		out.Connection = x.connection(p, b)
	}
	report := func(part string, err error) bool {
		if err != nil {
			x.warn(part, fmt.Errorf("broker %s: %w", b.Name, err))
		}
		return err == nil
	}
	if a, err := readAccess(ctx, x.api, b.path); report(AccessControl, err) {
		out.setAccess(a)
	}
	r := reader{api: x.api}
	if r.all(ctx, b.path+"/streams", &out.Streams); !report("streams", r.err) {
		out.Streams = nil
	}
	if bridges, err := x.bridges(ctx, p, b); report("bridges", err) {
		out.Bridges = bridges
	}
	return out
}

var notInVariables = regexp.MustCompile(`[^A-Z0-9]+`)

// variable returns the name of a variable of the environment for a secret, which no other
// secret has: the first one without its project.
func (x *export) variable(p project, parts ...string) string {
	name := variableName(parts...)
	if x.used[name] {
		name = variableName(append([]string{p.Name}, parts...)...)
	}
	first := name
	for n := 2; x.used[name]; n++ {
		name = fmt.Sprintf("%s_%d", first, n)
	}
	x.used[name] = true
	return name
}

func variableName(parts ...string) string {
	return "SIGNALBOX_SECRET_" + strings.Trim(notInVariables.ReplaceAllString(strings.ToUpper(strings.Join(parts, "_")), "_"), "_")
}

func (x *export) connection(p project, b managed) Connection {
	c := Connection{URL: b.URL, Description: b.Description, Username: some(b.Username), CACert: some(b.CACert), ClientCert: some(b.ClientCert),
		ServerFingerprint: some(b.ServerFingerprint), VerifyCACert: b.VerifyCACert, MetricsEnabled: b.MetricsEnabled, HA: b.HA, ClusterMode: some(b.ClusterMode), TopicTree: b.TopicTree}
	if b.HasPassword {
		c.Password = &Secret{Env: x.variable(p, b.Name, "password")}
	}
	if b.HasClientKey {
		c.ClientKey = &Secret{Env: x.variable(p, b.Name, "client_key")}
	}
	return c
}

// some returns nil for an empty text.
func some(text *string) *string {
	if text == nil || *text == "" {
		return nil
	}
	return text
}

// setAccess declares all of access control but empty texts.
func (b *Broker) setAccess(a *access) {
	b.AnonymousGroup, b.DefaultACL = &a.anonymous, []broker.DefaultACL{}
	for _, t := range defaultTypes {
		b.DefaultACL = append(b.DefaultACL, broker.DefaultACL{ACLType: t, Allow: a.defaults[t]})
	}
	b.Roles, b.Groups, b.Clients = []Role{}, []Group{}, []Client{}
	for _, name := range sorted(a.roles) {
		v := a.roles[name]
		role := Role{RoleName: name, TextName: some(v.TextName), TextDescription: some(v.TextDescription), AllowWildcardSubs: &v.AllowWildcardSubs, ACLs: []ACL{}}
		for _, acl := range v.ACLs {
			role.ACLs = append(role.ACLs, ACL(acl))
		}
		b.Roles = append(b.Roles, role)
	}
	for _, name := range sorted(a.groups) {
		v := a.groups[name]
		b.Groups = append(b.Groups, Group{GroupName: name, TextName: some(v.TextName), TextDescription: some(v.TextDescription), Roles: ourRoles(v.Roles)})
	}
	for _, name := range sorted(a.clients) {
		v := a.clients[name]
		c := Client{Username: name, ClientID: &v.ClientID, Disabled: &v.Disabled, TextName: some(v.TextName), TextDescription: some(v.TextDescription), Roles: ourRoles(v.Roles), Groups: ourGroups(v.Groups)}
		b.Clients = append(b.Clients, c)
	}
}

func ourRoles(list []broker.RoleRef) []RoleRef {
	refs := make([]RoleRef, len(list))
	for i, r := range list {
		refs[i] = RoleRef(r)
	}
	return refs
}

func ourGroups(list []broker.GroupRef) []GroupRef {
	refs := make([]GroupRef, len(list))
	for i, r := range list {
		refs[i] = GroupRef(r)
	}
	return refs
}

func (x *export) bridges(ctx context.Context, p project, b managed) (map[string]json.RawMessage, error) {
	r, list, configs := reader{api: x.api}, []bridgeRecord{}, map[string]json.RawMessage{}
	r.get(ctx, b.path+"/bridges", nil, &list)
	for _, bridge := range list {
		if !bridge.IsActive {
			continue
		}
		var config json.RawMessage
		r.get(ctx, b.path+"/bridges/"+url.PathEscape(bridge.ID)+"/config", nil, &config)
		if r.err == nil {
			configs[bridge.ID], r.err = refer(config, func(n int) string { return x.variable(p, b.Name, bridge.ID, strconv.Itoa(n)) })
		}
	}
	return configs, r.err
}
