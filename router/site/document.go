// Package site compares what a file declares (projects, members, broker connections,
// access control, streams, bridges, clusters) with what a service has, and changes the
// service accordingly.
//
// DESIGN.md explains the order of the changes.
package site

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"signalbox/broker"
)

// Document is the content of a file. Members that are absent are not managed: they are
// neither compared nor changed.
type Document struct {
	Version  int       `json:"version"`
	Projects []Project `json:"projects,omitzero"`
}

// Project is a project, identified by its name.
type Project struct {
	Name        string    `json:"name"`
	Description *string   `json:"description,omitempty"`
	Members     []Member  `json:"members,omitzero"`
	Brokers     []Broker  `json:"brokers,omitzero"`
	Clusters    []Cluster `json:"clusters,omitzero"`
}

// Member is a member of a project, identified by the address of the user.
type Member struct {
	Email string `json:"email"`
	Role  string `json:"role"`
}

// Broker is a broker, identified by its name in the project. Without URL it must exist, and
// its connection is not managed.
type Broker struct {
	Name string `json:"name"`
	Connection

	DefaultACL     []broker.DefaultACL `json:"acldefault,omitzero"`
	AnonymousGroup *string             `json:"anonymousgroup,omitempty"`
	Roles          []Role              `json:"roles,omitzero"`
	Groups         []Group             `json:"groups,omitzero"`
	Clients        []Client            `json:"clients,omitzero"`

	Streams []Stream                   `json:"streams,omitzero"`
	Bridges map[string]json.RawMessage `json:"bridges,omitzero"`
}

// Connection is how a broker is reached. Its members are those of the API: absent is unchanged, null
// is cleared.
type Connection struct {
	Cleared []string `json:"-"` // members that are null

	URL               string  `json:"url,omitempty"`
	Description       *string `json:"description,omitempty"`
	Username          *string `json:"username,omitempty"`
	Password          *Secret `json:"password,omitempty"`
	CACert            *string `json:"ca_cert,omitempty"`
	ClientCert        *string `json:"client_cert,omitempty"`
	ClientKey         *Secret `json:"client_key,omitempty"`
	ServerFingerprint *string `json:"server_fingerprint,omitempty"`
	VerifyCACert      *bool   `json:"verify_ca_cert,omitempty"`
	MetricsEnabled    *bool   `json:"metricsEnabled,omitempty"`
	HA                *bool   `json:"ha,omitempty"`
	ClusterMode       *string `json:"clustermode,omitempty"`
	TopicTree         *bool   `json:"topictree,omitempty"`
}

// clearable are the members of a connection that may be null.
var clearable = []string{"username", "password", "ca_cert", "client_cert", "client_key", "server_fingerprint"}

// UnmarshalJSON reads a broker, and which members of its connection are null.
func (b *Broker) UnmarshalJSON(text []byte) error {
	type plain Broker
	if err := json.Unmarshal(text, (*plain)(b)); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	for _, name := range clearable {
		if string(members[name]) == "null" {
			b.Cleared = append(b.Cleared, name)
		}
	}
	return nil
}

// Role is a role. A list of ACLs replaces the whole list.
type Role struct {
	RoleName          string  `json:"rolename"`
	TextName          *string `json:"textname,omitempty"`
	TextDescription   *string `json:"textdescription,omitempty"`
	AllowWildcardSubs *bool   `json:"allowwildcardsubs,omitempty"`
	ACLs              []ACL   `json:"acls,omitzero"`
}

// ACL is a rule of a role. The priority is 0 if it is absent.
type ACL struct {
	ACLType  broker.ACLType `json:"acltype"`
	Topic    string         `json:"topic"`
	Priority int            `json:"priority"`
	Allow    bool           `json:"allow"`
}

// Group is a group of clients. Its members are in the records of the clients.
type Group struct {
	GroupName       string    `json:"groupname"`
	TextName        *string   `json:"textname,omitempty"`
	TextDescription *string   `json:"textdescription,omitempty"`
	Roles           []RoleRef `json:"roles,omitzero"`
}

// Client is a client of a broker. Its password is used when it is created; a stored one
// cannot be compared.
type Client struct {
	Username        string     `json:"username"`
	Password        *Secret    `json:"password,omitempty"`
	ClientID        *string    `json:"clientid,omitempty"`
	TextName        *string    `json:"textname,omitempty"`
	TextDescription *string    `json:"textdescription,omitempty"`
	Disabled        *bool      `json:"disabled,omitempty"`
	Roles           []RoleRef  `json:"roles,omitzero"`
	Groups          []GroupRef `json:"groups,omitzero"`
}

// RoleRef is a role of a client or group: a name, or an object with a priority.
type RoleRef broker.RoleRef

// GroupRef is a group of a client: a name, or an object with a priority.
type GroupRef broker.GroupRef

// UnmarshalJSON reads a name or an object.
func (r *RoleRef) UnmarshalJSON(b []byte) error {
	type object RoleRef
	o := object{Priority: broker.NoPriority}
	if b[0] == '"' {
		err := json.Unmarshal(b, &o.RoleName)
		*r = RoleRef(o)
		return err
	}
	err := json.Unmarshal(b, &o)
	*r = RoleRef(o)
	return err
}

// MarshalJSON writes a name, or an object if there is a priority.
func (r RoleRef) MarshalJSON() ([]byte, error) {
	if r.Priority == broker.NoPriority {
		return json.Marshal(r.RoleName)
	}
	return json.Marshal(broker.RoleRef(r))
}

// UnmarshalJSON reads a name or an object.
func (r *GroupRef) UnmarshalJSON(b []byte) error {
	type object GroupRef
	o := object{Priority: broker.NoPriority}
	if b[0] == '"' {
		err := json.Unmarshal(b, &o.GroupName)
		*r = GroupRef(o)
		return err
	}
	err := json.Unmarshal(b, &o)
	*r = GroupRef(o)
	return err
}

// MarshalJSON writes a name, or an object if there is a priority.
func (r GroupRef) MarshalJSON() ([]byte, error) {
	if r.Priority == broker.NoPriority {
		return json.Marshal(r.GroupName)
	}
	return json.Marshal(broker.GroupRef(r))
}

// Stream is the definition of a stream.
type Stream struct {
	StreamName      string          `json:"streamname"`
	SourceTopic     *string         `json:"sourcetopic,omitempty"`
	TargetTopic     *string         `json:"targettopic,omitempty"`
	TargetQoS       *int            `json:"targetqos,omitempty"`
	TTL             *int64          `json:"ttl,omitempty"`
	Key             *string         `json:"key,omitempty"`
	TextName        *string         `json:"textname,omitempty"`
	TextDescription *string         `json:"textdescription,omitempty"`
	Active          *bool           `json:"active,omitempty"`
	Process         *bool           `json:"process,omitempty"`
	Persist         *bool           `json:"persist,omitempty"`
	Query           json.RawMessage `json:"query,omitzero"`
}

// Schema is the JSON Schema of a file.
//
//go:embed schema.json
var Schema []byte

const schemaURL = "https://signalbox.invalid/site.json"

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaURL, value); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
})

// Decode returns the document of a value, as read from JSON or YAML. Its error names every
// invalid member.
func Decode(value any) (*Document, error) {
	schema, err := compiled()
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(value); err != nil {
		return nil, schemaError(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	return &d, d.duplicates()
}

// duplicates returns an error that names everything that is declared twice.
func (d *Document) duplicates() error {
	var bad []error
	once := func(place, what string, names []string) {
		slices.Sort(names)
		for i := 1; i < len(names); i++ {
			if names[i] == names[i-1] && (i < 2 || names[i-2] != names[i]) {
				bad = append(bad, fmt.Errorf("%s%s %q is declared more than once", place, what, names[i]))
			}
		}
	}
	once("", "project", names(d.Projects, func(p Project) string { return p.Name }))
	for _, p := range d.Projects {
		place := "project " + p.Name + ": "
		once(place, "member", names(p.Members, func(m Member) string { return strings.ToLower(m.Email) }))
		once(place, "broker", names(p.Brokers, func(b Broker) string { return b.Name }))
		once(place, "cluster", names(p.Clusters, Cluster.name))
		for _, c := range p.Clusters {
			once(place+"cluster "+c.ClusterName+": ", "node", names(c.Nodes, Node.name))
		}
		for _, b := range p.Brokers {
			place := "broker " + b.Name + ": "
			once(place, "role", names(b.Roles, Role.name))
			once(place, "group", names(b.Groups, Group.name))
			once(place, "client", names(b.Clients, Client.name))
			once(place, "stream", names(b.Streams, Stream.name))
			once(place, "default", names(b.DefaultACL, func(a broker.DefaultACL) string { return a.ACLType }))
			for _, r := range b.Roles {
				once(place+"role "+r.RoleName+": ", "rule", names(r.ACLs, func(a ACL) string { return string(a.ACLType) + " " + a.Topic }))
			}
		}
	}
	return errors.Join(bad...)
}

func (r Role) name() string   { return r.RoleName }
func (g Group) name() string  { return g.GroupName }
func (c Client) name() string { return c.Username }
func (s Stream) name() string { return s.StreamName }

func names[T any](list []T, name func(T) string) []string {
	all := make([]string, len(list))
	for i, v := range list {
		all[i] = name(v)
	}
	return all
}
