package dynsec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/broker"
)

// Marshal returns the document in the format of Mosquitto 2.1's dynamic-security.json.
// A password with a salt of 2.0's length is written in the format of 2.0 as well, so
// that 2.0 can load it; one with a salt of 2.1's length cannot be expressed there.
// Without Defaults those of a new broker are written.
func (d Document) Marshal() ([]byte, error) {
	if d.Defaults == nil {
		defaults := DefaultDefaults()
		d.Defaults = &defaults
	}
	return d.MarshalRecords()
}

// MarshalRecords returns the document as Marshal does, but writes null for absent
// Defaults, which ParseDocument reads as not specified. It is for this program, not for
// Mosquitto.
func (d Document) MarshalRecords() ([]byte, error) {
	f := fileDocument{ChangeIndex: d.ChangeIndex, AnonymousGroup: d.AnonymousGroup,
		Clients: make([]fileClient, 0, len(d.Clients)), Groups: make([]fileGroup, 0, len(d.Groups)), Roles: make([]broker.Role, 0, len(d.Roles))}
	if d.Defaults != nil {
		f.Defaults = (*fileDefaults)(d.Defaults)
	}
	for _, c := range d.Clients {
		f.Clients = append(f.Clients, newFileClient(c))
	}
	for _, g := range d.Groups {
		f.Groups = append(f.Groups, newFileGroup(g))
	}
	for _, r := range d.Roles {
		r.ACLs = notNil(r.ACLs)
		f.Roles = append(f.Roles, r)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("write document: %w", err)
	}
	return b.Bytes(), nil
}

// The types of the file, members in Mosquitto's order.
type (
	fileDocument struct {
		ChangeIndex    int64         `json:"changeIndex"`
		Defaults       *fileDefaults `json:"defaultACLAccess"`
		Clients        []fileClient  `json:"clients"`
		Groups         []fileGroup   `json:"groups"`
		AnonymousGroup string        `json:"anonymousGroup,omitempty"`
		Roles          []broker.Role `json:"roles"`
	}
	fileDefaults struct {
		PublishClientSend    bool `json:"publishClientSend"`
		PublishClientReceive bool `json:"publishClientReceive"`
		Subscribe            bool `json:"subscribe"`
		Unsubscribe          bool `json:"unsubscribe"`
	}
	fileClient struct {
		Username        string           `json:"username"`
		ClientID        string           `json:"clientid,omitempty"`
		TextName        *string          `json:"textname,omitempty"`
		TextDescription *string          `json:"textdescription,omitempty"`
		Disabled        bool             `json:"disabled,omitempty"`
		Roles           []broker.RoleRef `json:"roles"`
		EncodedPassword string           `json:"encoded_password,omitempty"`
		Password        string           `json:"password,omitempty"`
		Salt            string           `json:"salt,omitempty"`
		Iterations      uint32           `json:"iterations,omitempty"`
	}
	fileGroup struct {
		GroupName       string             `json:"groupname"`
		TextName        *string            `json:"textname,omitempty"`
		TextDescription *string            `json:"textdescription,omitempty"`
		Roles           []broker.RoleRef   `json:"roles"`
		Clients         []broker.MemberRef `json:"clients"`
	}
)

func newFileClient(c DocumentClient) fileClient {
	f := fileClient{Username: c.Username, ClientID: c.ClientID, TextName: c.TextName, TextDescription: c.TextDescription,
		Disabled: c.Disabled, Roles: notNil(c.Roles), EncodedPassword: c.EncodedPassword}
	if h, err := parsePBKDF2(c.EncodedPassword); err == nil && len(h.salt) == oldSaltBytes {
		parts := strings.Split(c.EncodedPassword, "$")
		f.Iterations, f.Salt, f.Password = h.iterations, parts[3], parts[4]
	}
	return f
}

func newFileGroup(g broker.Group) fileGroup {
	return fileGroup{GroupName: g.GroupName, TextName: g.TextName, TextDescription: g.TextDescription,
		Roles: notNil(g.Roles), Clients: notNil(g.Clients)}
}

// notNil replaces a nil list by an empty one.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
