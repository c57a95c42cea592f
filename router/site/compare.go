package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// comparison makes a plan.
type comparison struct {
	api     API
	options Options
	me      string // the address of the caller
	steps   []Step
	later   []string
	extra   map[string]int
	missing []error // secrets
	places  map[string]place
}

// Plan is what brings a service to the state of a document.
type Plan struct {
	Steps []Step
	// Later names projects and brokers that are created or reached in another way. What is in
	// them is compared afterwards.
	Later []string
	// Extra counts what the file lacks and is not deleted, by kind.
	Extra map[string]int
}

// Changes returns the number of steps that change something.
func (p *Plan) Changes() (n int) {
	for _, s := range p.Steps {
		if s.Action != Keep {
			n++
		}
	}
	return n
}

// Count returns the number of steps that do something with objects of a kind.
func (p *Plan) Count(action Action, kind string) (n int) {
	for _, s := range p.Steps {
		if s.Action == action && s.Kind == kind {
			n++
		}
	}
	return n
}

// Compare returns the plan. It changes nothing. A plan that would lock out the caller, or
// the account with which the service manages a broker, is an error.
func Compare(ctx context.Context, api API, d *Document, o Options) (*Plan, error) {
	c := &comparison{api: api, options: o, extra: map[string]int{}, places: map[string]place{}}
	projects, err := readProjects(ctx, api, func(name string) bool {
		return slices.ContainsFunc(d.Projects, func(p Project) bool { return p.Name == name })
	})
	if err != nil {
		return nil, err
	}
	var me struct{ Email string }
	r := reader{api: api}
	if r.get(ctx, "/api/auth/me", nil, &me); r.err != nil {
		return nil, r.err
	}
	c.me = me.Email
	for _, want := range d.Projects {
		if err := c.project(ctx, projects, want); err != nil {
			return nil, err
		}
	}
	if len(c.missing) > 0 {
		return nil, errors.Join(c.missing...)
	}
	slices.SortStableFunc(c.steps, func(a, b Step) int { return int(a.phase) - int(b.phase) })
	return &Plan{Steps: c.steps, Later: c.later, Extra: c.extra}, nil
}

// add adds the step of an object. A Delete that is not wanted is counted instead.
func (c *comparison) add(s Step) {
	s = c.located(s)
	if s.Action == Delete && !c.options.prunes(s) {
		c.extra[s.Kind]++
		return
	}
	c.steps = append(c.steps, s)
}

// located returns a step with the place of its object.
func (c *comparison) located(s Step) Step {
	s.at = place{project: c.places[s.Project].project, url: c.places[s.Project+"/"+s.Broker].url}
	return s
}

// needs checks that the secrets of an object that is created are there, before anything is
// changed.
func (c *comparison) needs(what string, secrets ...*Secret) {
	for _, from := range secrets {
		if from == nil || c.options.DryRun {
			continue
		}
		if _, err := c.options.Secrets.value(*from); err != nil {
			c.missing = append(c.missing, fmt.Errorf("%s: %w", what, err))
		}
	}
}

// needsOf checks the secrets of a broker that is created, and of what is in it.
func (c *comparison) needsOf(b Broker) {
	c.needs("broker "+b.Name, b.Password, b.ClientKey)
	for _, v := range b.Clients {
		c.needs("client "+v.Username, v.Password)
	}
	for _, id := range sorted(b.Bridges) {
		if c.options.DryRun {
			continue
		}
		if _, err := c.options.Secrets.reveal(b.Bridges[id]); err != nil {
			c.missing = append(c.missing, fmt.Errorf("bridge %s: %w", id, err))
		}
	}
}

func (c *comparison) call(method, path string, query url.Values, body any) func(context.Context) error {
	return func(ctx context.Context) error { return c.api.Call(ctx, method, path, query, body, nil) }
}

func (c *comparison) project(ctx context.Context, projects map[string]project, want Project) error {
	p, exists := projects[want.Name]
	if !exists {
		body := map[string]any{"name": want.Name, "description": value(want.Description)}
		c.add(Step{Action: Create, Project: want.Name, Kind: "project", Name: want.Name, do: c.call("POST", "/api/projects", nil, body)})
		if len(want.Brokers)+len(want.Members)+len(want.Clusters) > 0 {
			c.later = append(c.later, want.Name)
		}
		for _, b := range want.Brokers {
			c.needsOf(b)
		}
		return nil
	}
	c.places[p.Name] = place{project: p.ID}
	b := newBody("name", want.Name)
	if set(b, "description", want.Description, p.Description); len(b.changes) > 0 {
		c.add(Step{Action: Update, Project: want.Name, Kind: "project", Name: want.Name, Changes: b.changes, do: c.call("PUT", p.path(""), nil, b.fields)})
	}
	if err := c.members(ctx, p, want.Members); err != nil {
		return err
	}
	return errors.Join(c.brokers(ctx, p, want.Brokers), c.clusters(ctx, p, want))
}

// members compares the members of a project, with the caller last: who is no admin any more
// can change nothing.
func (c *comparison) members(ctx context.Context, p project, want []Member) error {
	if want == nil || c.options.Only {
		return nil
	}
	r, have := reader{api: c.api}, []memberRecord{}
	if r.get(ctx, p.path("/members"), nil, &have); r.err != nil {
		return r.err
	}
	byEmail, err := unique(have, "member", func(m memberRecord) string { return strings.ToLower(m.Email) }, everyName, nil)
	if err != nil {
		return err
	}
	for _, m := range want {
		have, exists := byEmail[strings.ToLower(m.Email)]
		delete(byEmail, strings.ToLower(m.Email))
		step := Step{Action: Update, Project: p.Name, Kind: "member", Name: m.Email, Changes: []string{"role " + m.Role}}
		switch {
		case exists && have.Role == m.Role:
			continue
		case exists && strings.EqualFold(m.Email, c.me):
			return fmt.Errorf("the file changes the role of %s, who applies it, in project %s; let another user do that", m.Email, p.Name)
		case !exists:
			step.Action = Create
		}
		step.do = c.putMember(p, have.UserID, m)
		c.add(step)
	}
	for _, email := range sorted(byEmail) {
		step := Step{Action: Delete, Project: p.Name, Kind: "member", Name: byEmail[email].Email, do: c.call("DELETE", p.path("/members/"+url.PathEscape(byEmail[email].UserID)), nil, nil)}
		if strings.EqualFold(email, c.me) {
			step.Action, step.Reason, step.do = Keep, "it applies the file", nil
		}
		c.add(step)
	}
	return nil
}

// putMember sets the role of a user, whose id is looked up if it is not known.
func (c *comparison) putMember(p project, userID string, m Member) func(context.Context) error {
	return func(ctx context.Context) error {
		if userID == "" {
			var err error
			if userID, err = findUser(ctx, c.api, m.Email); err != nil {
				return err
			}
		}
		return c.api.Call(ctx, "PUT", p.path("/members/"+url.PathEscape(userID)), nil, map[string]string{"role": m.Role}, nil)
	}
}

// findUser returns the id of a user.
func findUser(ctx context.Context, api API, email string) (string, error) {
	const size = 500
	for page := 0; ; page++ {
		var list struct {
			Data []struct{ ID, Email string }
		}
		query := url.Values{"page": {fmt.Sprint(page)}, "pageSize": {fmt.Sprint(size)}}
		if err := api.Call(ctx, "GET", "/api/users", query, nil, &list); err != nil {
			return "", err
		}
		for _, u := range list.Data {
			if strings.EqualFold(u.Email, email) {
				return u.ID, nil
			}
		}
		if len(list.Data) < size {
			return "", &NotFoundError{fmt.Sprintf("there is no user %s; create the user first", email)}
		}
	}
}

func (c *comparison) brokers(ctx context.Context, p project, want []Broker) error {
	if want == nil {
		return nil
	}
	have, err := readBrokers(ctx, c.api, p, func(name string) bool {
		return c.options.Prune || slices.ContainsFunc(want, func(b Broker) bool { return b.Name == name })
	})
	if err != nil {
		return err
	}
	for _, b := range want {
		m, exists := have[b.Name]
		delete(have, b.Name)
		if !exists {
			if err := c.newBroker(p, b); err != nil {
				return err
			}
			continue
		}
		if err := c.broker(ctx, p, m, b); err != nil {
			return fmt.Errorf("broker %s of project %s: %w", b.Name, p.Name, err)
		}
	}
	for _, name := range sorted(have) {
		if have[name].Type != onPremise && !c.options.Only {
			c.add(Step{Action: Delete, Project: p.Name, Kind: "broker", Name: name, phase: messageFlow, do: c.call("DELETE", have[name].path, nil, nil)})
		}
	}
	return nil
}

func (c *comparison) newBroker(p project, b Broker) error {
	if b.URL == "" && c.options.Only {
		return &NotFoundError{fmt.Sprintf("project %s has no broker %s", p.Name, b.Name)}
	}
	if b.URL == "" {
		return fmt.Errorf("project %s has no broker %s, and the file has no url to add it", p.Name, b.Name)
	}
	c.later = append(c.later, p.Name+"/"+b.Name)
	c.needsOf(b)
	c.add(Step{Action: Create, Project: p.Name, Kind: "broker", Name: b.Name, do: func(ctx context.Context) error {
		body, err := c.connection(b, true)
		if err != nil {
			return err
		}
		return c.api.Call(ctx, "POST", p.path("/brokers"), nil, body, nil)
	}})
	return nil
}

// connection returns the body of a connection. The secrets are in it if it is new, or if
// its address changes: a stored secret does not follow to another address.
func (c *comparison) connection(b Broker, secrets bool) (map[string]any, error) {
	password, key := b.Password, b.ClientKey
	b.Password, b.ClientKey = nil, nil
	body := map[string]any{"name": b.Name}
	if err := json.Unmarshal(must(json.Marshal(b.Connection)), &body); err != nil {
		return nil, err
	}
	for member, from := range map[string]*Secret{"password": password, "client_key": key} {
		if from == nil || !secrets {
			continue
		}
		secret, err := c.options.Secrets.value(*from)
		if err != nil {
			return nil, err
		}
		body[member] = secret
	}
	for _, member := range b.Cleared {
		body[member] = nil
	}
	return body, nil
}

func (c *comparison) broker(ctx context.Context, p project, have managed, want Broker) error {
	if have.Type != onPremise {
		c.places[p.Name+"/"+want.Name] = place{url: have.URL}
	}
	if want.URL != "" && !c.options.Only && c.compareConnection(p, have, want) {
		c.later = append(c.later, p.Name+"/"+want.Name)
		return nil
	}
	if err := c.access(ctx, p, have, want); err != nil {
		return err
	}
	if c.options.Only {
		return nil
	}
	return errors.Join(c.streams(ctx, p, have, want), c.bridges(ctx, p, have, want))
}

// compareConnection reports whether the connection leads to another broker, or another account
// at it: what is there is only known afterwards.
func (c *comparison) compareConnection(p project, have managed, want Broker) (moved bool) {
	b := newBody("name", want.Name)
	set(b, "url", &want.URL, have.URL)
	moved = len(b.changes) > 0
	set(b, "description", want.Description, value(have.Description))
	set(b, "username", want.Username, value(have.Username))
	set(b, "ca_cert", want.CACert, value(have.CACert))
	set(b, "client_cert", want.ClientCert, value(have.ClientCert))
	set(b, "server_fingerprint", want.ServerFingerprint, value(have.ServerFingerprint))
	set(b, "clustermode", want.ClusterMode, value(have.ClusterMode))
	set(b, "verify_ca_cert", want.VerifyCACert, value(have.VerifyCACert))
	set(b, "metricsEnabled", want.MetricsEnabled, value(have.MetricsEnabled))
	set(b, "ha", want.HA, value(have.HA))
	set(b, "topictree", want.TopicTree, value(have.TopicTree))
	for _, member := range want.Cleared {
		if have.has(member) {
			b.changes = append(b.changes, member)
		}
	}
	missing := want.Password != nil && !have.HasPassword || want.ClientKey != nil && !have.HasClientKey
	if missing {
		b.changes = append(b.changes, "secrets")
	}
	if len(b.changes) == 0 {
		return false
	}
	account := slices.Contains(b.changes, "username") || slices.Contains(b.changes, "client_cert")
	secrets := moved || missing || account
	if secrets {
		c.needs("broker "+want.Name, want.Password, want.ClientKey)
	}
	c.add(Step{Action: Update, Project: p.Name, Kind: "broker", Name: want.Name, Changes: b.changes, do: func(ctx context.Context) error {
		body, err := c.connection(want, secrets)
		if err != nil {
			return err
		}
		return c.api.Call(ctx, "PUT", have.path, nil, body, nil)
	}})
	return moved || account
}
