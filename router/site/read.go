package site

import (
	"context"
	"fmt"
	"net/url"
	"slices"

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

// has reports whether a member of clearable is set.
func (r record) has(member string) bool {
	switch member {
	case "username":
		return value(r.Username) != ""
	case "password":
		return r.HasPassword
	case "ca_cert":
		return value(r.CACert) != ""
	case "client_cert":
		return value(r.ClientCert) != ""
	case "client_key":
		return r.HasClientKey
	}
	return value(r.ServerFingerprint) != ""
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

type bridgeRecord struct {
	ID       string `json:"id"`
	IsActive bool   `json:"isActive"`
}

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
