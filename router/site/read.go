package site

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"signalbox/broker"
)

// API calls operations of a service. The body and the result are JSON values; either may
// be nil.
type API interface {
	Call(ctx context.Context, method, path string, query url.Values, body, result any) error
}

// project is a project of the service.
type project struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

func (p project) path(rest string) string { return "/api/projects/" + url.PathEscape(p.ID) + rest }

// managed is a broker of the service.
type managed struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Name string `json:"name"`
	record

	path string // of the API
}

// record is the connection of a broker as the API returns it.
type record struct {
	URL               string  `json:"url"`
	Description       *string `json:"description"`
	Username          *string `json:"username"`
	CACert            *string `json:"ca_cert"`
	ClientCert        *string `json:"client_cert"`
	ServerFingerprint *string `json:"server_fingerprint"`
	VerifyCACert      *bool   `json:"verify_ca_cert"`
	MetricsEnabled    *bool   `json:"metricsEnabled"`
	HA                *bool   `json:"ha"`
	ClusterMode       *string `json:"clustermode"`
	TopicTree         *bool   `json:"topictree"`
	HasPassword       bool    `json:"hasPassword"`
	HasClientKey      bool    `json:"hasClientKey"`
}

// onPremise is the type of the broker of the service itself, whose connection is not a
// matter of a file.
const onPremise = "on-premise-setup"

// access is the access control of a broker.
type access struct {
	defaults  map[string]bool // by type
	anonymous string
	roles     map[string]broker.Role
	groups    map[string]broker.Group
	clients   map[string]broker.Client
}

// reader reads the present state.
type reader struct {
	api API
	err error
}

// get reads the result of an operation. After an error it does nothing.
func (r *reader) get(ctx context.Context, path string, query url.Values, result any) {
	if r.err == nil {
		r.err = r.api.Call(ctx, "GET", path, query, nil, result)
	}
}

// all reads a whole list with its records.
func (r *reader) all(ctx context.Context, path string, result any) {
	r.get(ctx, path, url.Values{"verbose": {"true"}, "count": {"-1"}}, result)
}

func readProjects(ctx context.Context, api API, used func(name string) bool) (map[string]project, error) {
	r, list := reader{api: api}, []project{}
	r.get(ctx, "/api/projects", nil, &list)
	return unique(list, "project", func(p project) string { return p.Name }, used, r.err)
}

func readBrokers(ctx context.Context, api API, p project, used func(name string) bool) (map[string]managed, error) {
	r, list := reader{api: api}, []managed{}
	r.get(ctx, p.path("/brokers"), nil, &list)
	for i := range list {
		list[i].path = p.path("/brokers/" + url.PathEscape(list[i].ID))
	}
	return unique(list, "broker", func(b managed) string { return b.Name }, used, r.err)
}

// unique returns a list by name. A file cannot tell objects of one name apart: that is an error
// if the name is used.
func unique[T any](list []T, what string, name func(T) string, used func(string) bool, err error) (map[string]T, error) {
	byName := map[string]T{}
	for _, v := range list {
		if hasKey(byName, name(v)) && used(name(v)) && err == nil {
			err = fmt.Errorf("there are several objects of kind %s with the name %q; give them different names", what, name(v))
		}
		byName[name(v)] = v
	}
	return byName, err
}

func everyName(string) bool { return true }

type memberRecord struct {
	UserID string `json:"userId"`
	Email  string `json:"email"`
	Role   string `json:"role"`
}

// The references in records, whose priority is the default where it is absent.
type (
	clientRecord struct {
		broker.Client
		Roles  []RoleRef  `json:"roles"`
		Groups []GroupRef `json:"groups"`
	}
	groupRecord struct {
		broker.Group
		Roles []RoleRef `json:"roles"`
	}
)

// readAccess reads the access control of a broker.
func readAccess(ctx context.Context, api API, path string) (*access, error) {
	r := reader{api: api}
	var defaults struct{ ACLs [][]broker.DefaultACL }
	var anonymous struct{ GroupName string }
	var roles []broker.Role
	var groups []groupRecord
	var clients []clientRecord
	r.get(ctx, path+"/acldefault", nil, &defaults)
	r.get(ctx, path+"/groups/anonymous", nil, &anonymous)
	r.all(ctx, path+"/roles", &roles)
	r.all(ctx, path+"/groups", &groups)
	r.all(ctx, path+"/clients", &clients)
	a := &access{defaults: map[string]bool{}, anonymous: anonymous.GroupName,
		roles: map[string]broker.Role{}, groups: map[string]broker.Group{}, clients: map[string]broker.Client{}}
	for _, d := range slices.Concat(defaults.ACLs...) {
		a.defaults[d.ACLType] = d.Allow
	}
	for _, v := range roles {
		a.roles[v.RoleName] = v
	}
	for _, v := range groups {
		v.Group.Roles = roleRefs(v.Roles)
		a.groups[v.GroupName] = v.Group
	}
	for _, v := range clients {
		v.Client.Roles, v.Client.Groups = roleRefs(v.Roles), groupRefs(v.Groups)
		a.clients[v.Username] = v.Client
	}
	return a, r.err
}

func roleRefs(list []RoleRef) []broker.RoleRef {
	refs := make([]broker.RoleRef, len(list))
	for i, r := range list {
		refs[i] = broker.RoleRef(r)
	}
	return refs
}

func groupRefs(list []GroupRef) []broker.GroupRef {
	refs := make([]broker.GroupRef, len(list))
	for i, r := range list {
		refs[i] = broker.GroupRef(r)
	}
	return refs
}

// Export returns what a service has, of one project or of all, and of one broker or of all:
// "" stands for all. What a broker does not support or does not answer is left out; warn is
// called with the part and the cause. Secrets are references to variables of the environment.
func Export(ctx context.Context, api API, projectName, brokerName string, warn func(part string, err error)) (*Document, error) {
	projects, err := readProjects(ctx, api, func(name string) bool { return projectName == "" || projectName == name })
	if err != nil {
		return nil, err
	}
	d := &Document{Version: 1, Projects: []Project{}}
	for _, name := range sorted(projects) {
		if projectName != "" && projectName != name && projectName != projects[name].ID {
			continue
		}
		p, err := exportProject(ctx, api, projects[name], brokerName, warn)
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

// As returns a document of one broker as one of a broker with another name, of which only
// the access control is declared.
func (d *Document) As(name string) *Document {
	p := d.Projects[0]
	from := p.Brokers[0]
	return &Document{Version: d.Version, Projects: []Project{{Name: p.Name, Brokers: []Broker{{Name: name,
		DefaultACL: from.DefaultACL, AnonymousGroup: from.AnonymousGroup, Roles: from.Roles, Groups: from.Groups, Clients: from.Clients}}}}}
}

// NotFoundError is a name of something that the service does not have.
type NotFoundError struct{ text string }

// NotFoundError is a name that no object of the service has.
func (e *NotFoundError) Error() string { return e.text }

func exportProject(ctx context.Context, api API, p project, brokerName string, warn func(part string, err error)) (*Project, error) {
	out := &Project{Name: p.Name}
	brokers, err := readBrokers(ctx, api, p, func(name string) bool { return brokerName == "" || brokerName == name })
	if err != nil {
		return nil, err
	}
	if brokerName == "" {
		out.Description, out.Members, out.Brokers = &p.Description, []Member{}, []Broker{}
		r, members := reader{api: api}, []memberRecord{}
		r.get(ctx, p.path("/members"), nil, &members)
		if r.err != nil {
			return nil, r.err
		}
		for _, m := range members {
			out.Members = append(out.Members, Member{Email: m.Email, Role: m.Role})
		}
	}
	for _, name := range sorted(brokers) {
		if b := brokers[name]; brokerName == "" || brokerName == name || brokerName == b.ID {
			out.Brokers = append(out.Brokers, exportBroker(ctx, api, b, warn))
		}
	}
	return out, nil
}

// AccessControl is the part of a broker that not every broker has.
const AccessControl = "access control"

// exportBroker returns a broker with what can be read of it.
func exportBroker(ctx context.Context, api API, b managed, warn func(part string, err error)) Broker {
	out := Broker{Name: b.Name}
	if b.Type != onPremise {
		out.Connection = b.exported()
	}
	report := func(part string, err error) bool {
		if err != nil {
			warn(part, fmt.Errorf("broker %s: %w", b.Name, err))
		}
		return err == nil
	}
	if a, err := readAccess(ctx, api, b.path); report(AccessControl, err) {
		out.setAccess(a)
	}
	r := reader{api: api}
	if r.all(ctx, b.path+"/streams", &out.Streams); !report("streams", r.err) {
		out.Streams = nil
	}
	if bridges, err := exportBridges(ctx, api, b); report("bridges", err) {
		out.Bridges = bridges
	}
	return out
}

var notInVariables = regexp.MustCompile(`[^A-Z0-9]+`)

// variable returns the name of a variable of the environment for a secret.
func variable(parts ...string) string {
	return "SIGNALBOX_SECRET_" + strings.Trim(notInVariables.ReplaceAllString(strings.ToUpper(strings.Join(parts, "_")), "_"), "_")
}

func (b managed) exported() Connection {
	c := Connection{URL: b.URL, Description: b.Description, Username: some(b.Username), CACert: some(b.CACert), ClientCert: some(b.ClientCert),
		ServerFingerprint: some(b.ServerFingerprint), VerifyCACert: b.VerifyCACert, MetricsEnabled: b.MetricsEnabled, HA: b.HA, ClusterMode: some(b.ClusterMode), TopicTree: b.TopicTree}
	if b.HasPassword {
		c.Password = &Secret{Env: variable(b.Name, "password")}
	}
	if b.HasClientKey {
		c.ClientKey = &Secret{Env: variable(b.Name, "client_key")}
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

// optional returns nil for an empty text.
func optional(text string) *string { return some(&text) }

func (b *Broker) setAccess(a *access) {
	b.AnonymousGroup, b.DefaultACL = &a.anonymous, []broker.DefaultACL{}
	for _, t := range defaultTypes {
		b.DefaultACL = append(b.DefaultACL, broker.DefaultACL{ACLType: t, Allow: a.defaults[t]})
	}
	b.Roles, b.Groups, b.Clients = []Role{}, []Group{}, []Client{}
	for _, name := range sorted(a.roles) {
		v := a.roles[name]
		role := Role{RoleName: name, TextName: some(v.TextName), TextDescription: some(v.TextDescription), ACLs: []ACL{}}
		if !v.AllowWildcardSubs {
			role.AllowWildcardSubs = &v.AllowWildcardSubs
		}
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
		c := Client{Username: name, ClientID: optional(v.ClientID), TextName: some(v.TextName), TextDescription: some(v.TextDescription), Roles: ourRoles(v.Roles), Groups: ourGroups(v.Groups)}
		if v.Disabled {
			c.Disabled = &v.Disabled
		}
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

type bridgeRecord struct {
	ID       string `json:"id"`
	IsActive bool   `json:"isActive"`
}

func exportBridges(ctx context.Context, api API, b managed) (map[string]json.RawMessage, error) {
	r, list, configs := reader{api: api}, []bridgeRecord{}, map[string]json.RawMessage{}
	r.get(ctx, b.path+"/bridges", nil, &list)
	for _, bridge := range list {
		if !bridge.IsActive {
			continue
		}
		var config json.RawMessage
		r.get(ctx, b.path+"/bridges/"+bridge.ID+"/config", nil, &config)
		if r.err == nil {
			configs[bridge.ID], r.err = refer(config, variable(b.Name, bridge.ID))
		}
	}
	return configs, r.err
}

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
