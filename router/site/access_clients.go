package site

import (
	"context"
	"crypto/rand"
	"maps"
	"net/url"
	"slices"

	"signalbox/broker"
)

func (p *accessPlan) clients() {
	for _, name := range sorted(p.want.clients) {
		want := p.want.clients[name]
		have, exists := p.have.clients[name]
		if !exists {
			p.create(want)
			continue
		}
		p.client(have, want)
		if have.Disabled != want.Disabled {
			at, change := addClients, "enabled"
			if want.Disabled {
				at, change = revoke, "disabled"
			}
			p.add(at, Update, "client", name, []string{change}, "PUT", "/clients/enable", nil, map[string]any{"username": name, "enable": !want.Disabled})
		}
	}
	for _, name := range sorted(p.have.clients) {
		if _, stays := p.want.clients[name]; !stays {
			p.add(revoke, Delete, "client", name, nil, "DELETE", "/clients", url.Values{"username": {name}}, nil)
		}
	}
}

// client changes a client, if it differs, in one step.
func (p *accessPlan) client(have, want broker.Client) {
	b := newBody("username", want.Username)
	setTexts(b, want.TextName, have.TextName, want.TextDescription, have.TextDescription)
	set(b, "clientid", &want.ClientID, have.ClientID)
	if !sameRefs(have.Roles, want.Roles) {
		b.fields["roles"], b.changes = nonNil(want.Roles), append(b.changes, "roles")
	}
	if !sameRefs(have.Groups, want.Groups) {
		b.fields["groups"], b.changes = nonNil(want.Groups), append(b.changes, "groups")
	}
	if len(b.changes) > 0 {
		p.add(moveClients, Update, "client", want.Username, b.changes, "PUT", "/clients", nil, b.fields)
	}
}

// create adds a client, with its password.
func (p *accessPlan) create(want broker.Client) {
	password := p.declared[want.Username].Password
	body := map[string]any{"username": want.Username, "clientid": want.ClientID, "textname": want.TextName, "textdescription": want.TextDescription,
		"roles": nonNil(want.Roles), "groups": nonNil(want.Groups)}
	p.steps = append(p.steps, Step{Action: Create, Kind: "client", Name: want.Username, phase: addClients, do: func(ctx context.Context) error {
		created := maps.Clone(body)
		if password != nil {
			secret, err := p.secrets.value(*password)
			if err != nil {
				return err
			}
			created["password"] = secret
		}
		if want.Disabled {
			return p.createDisabled(ctx, created, body)
		}
		return p.api.Call(ctx, "POST", p.path+"/clients", nil, created, nil)
	}})
}

// unfinished begins the client id of a client that is not disabled yet.
const unfinished = "signalbox-apply-"

// createDisabled adds a client that can never connect: until it is disabled it is bound to a
// random client id.
func (p *accessPlan) createDisabled(ctx context.Context, created, final map[string]any) error {
	created["clientid"], created["roles"], created["groups"] = unfinished+rand.Text(), []string{}, []string{}
	for _, call := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/clients", created},
		{"PUT", "/clients/enable", map[string]any{"username": final["username"], "enable": false}},
		{"PUT", "/clients", final},
	} {
		if err := p.api.Call(ctx, call.method, p.path+call.path, nil, call.body, nil); err != nil {
			return err
		}
	}
	return nil
}

// holders returns the roles and groups through which an account has its rights.
func (a *access) holders(username string) (roles, groups []string) {
	c, exists := a.clients[username]
	if !exists && username == "" && a.anonymous != "" {
		c.Groups = []broker.GroupRef{{GroupName: a.anonymous}}
	}
	add := func(list []broker.RoleRef) {
		for _, ref := range list {
			if !slices.Contains(roles, ref.RoleName) {
				roles = append(roles, ref.RoleName)
			}
		}
	}
	add(c.Roles)
	for _, ref := range c.Groups {
		groups = append(groups, ref.GroupName)
		add(a.groups[ref.GroupName].Roles)
	}
	return roles, groups
}
