package console

import (
	"errors"
	"net/url"
	"slices"
)

// decisionPages explain decisions of access control, and change the default.
func decisionPages() []*page {
	const help = "access-control"
	return []*page{
		{path: brokerPath + "check", name: "check", group: "check", role: viewer, help: help,
			calls: []string{"checkAccess", "listClients", "listGroups", "listRoles", "getAnonymousGroup"}, view: viewCheck},
		{path: brokerPath + "denials", name: "denials", group: "denials", role: viewer, help: help,
			calls: []string{"listDenials"}, view: viewDenials, fragments: []string{"list"}},
		{path: brokerPath + "denials/allow", name: "denial-allow", group: "denials", role: editor, help: help,
			calls: []string{"checkAccess", "listClients", "listGroups", "listRoles", "getAnonymousGroup", "createRole", "deleteRole", "modifyRole", "modifyClient"},
			view:  viewDenialAllow, actions: map[string]action{"allow": allowDenied}},
		{path: brokerPath + "default-access", name: "default-access", group: "default-access", role: viewer, change: editor, help: help,
			calls: []string{"getDefaultACLAccess", "setDefaultACLAccess"}, view: viewDefaultAccess,
			actions: map[string]action{"save": setDefaultAccess}},
	}
}

// accessVerdict is what checkAccess returned.
type accessVerdict struct {
	Allowed  bool        `json:"allowed"`
	Type     string      `json:"acltype"`
	Reason   string      `json:"reason"`
	Source   string      `json:"source"`
	Rule     *accessRule `json:"acl"`
	RoleName string      `json:"rolename"`
	Via      string      `json:"via"`
	Group    string      `json:"groupname"`
}

// decidedBy reports whether a rule is the one that decided.
func (v *accessVerdict) decidedBy(r right) bool {
	if v.RoleName != r.Role || v.Group != r.Group {
		return false
	}
	if r.NoWildcards {
		return v.Source == "wildcards"
	}
	return v.Source == "role" && v.Rule != nil && *v.Rule == r.accessRule
}

// The places of a rule in a decision.
const (
	placePassed   = "passed"  // it does not match
	placeDecides  = "decides" // it matches first
	placeSkipped  = "skipped" // another rule has decided
	placeUntested = ""        // no rule was looked at
)

// checkedRule is a rule with its place in a decision.
type checkedRule struct {
	right
	Place string
}

// checkView answers whether a client may do something, and why.
type checkView struct {
	accessView
	Username, ClientID, Action, Topic string
	Actions                           []option
	Asked                             bool
	Verdict                           part[accessVerdict]
	Rules                             []checkedRule
	RulesErr                          *apiError
	Default                           string // place of the default access
	Usernames                         part[[]string]
}

func viewCheck(q *request) (view, error) {
	v := &checkView{Username: q.query.Get("username"), ClientID: q.query.Get("clientid"), Action: q.query.Get("action"), Topic: q.query.Get("topic")}
	v.Actions = q.actionOptions()
	v.Asked = v.Topic != ""
	var g parts
	load(&g, q, &v.Usernames, "listClients", suggestions())
	var held []heldRole
	var failure error
	if v.Asked {
		load(&g, q, &v.Verdict, "checkAccess", v.question())
		g.run(func() { held, failure = q.heldBy(v.Username) })
	}
	g.wait()
	v.Missing = q.missing("dynamic-security", v.Usernames.Err)
	if failure != nil {
		v.RulesErr = q.asAPIError(failure)
	} else if e, ok := accessEventOf(v.Action); ok && v.Verdict.Err == nil {
		v.Rules, v.Default = v.Verdict.Value.place(e.rightsOf(held))
	}
	return v, nil
}

// actionOptions returns the actions as the choices of a field.
func (q *request) actionOptions() (options []option) {
	for _, e := range accessEvents {
		options = append(options, option{e.action, q.t("access.action." + e.action)})
	}
	return options
}

// MayAllow reports whether a rule can allow what was denied.
func (v *checkView) MayAllow() bool { return v.Verdict.Value.fixable() }

// fixable reports whether a rule of a role can change the verdict.
func (v *accessVerdict) fixable() bool {
	return slices.Contains([]string{"role", "default", "control"}, v.Source)
}

// question returns the query of checkAccess.
func (v *checkView) question() url.Values {
	query := url.Values{"action": {v.Action}, "topic": {v.Topic}}
	if v.Username != "" {
		query.Set("username", v.Username)
	}
	if v.ClientID != "" {
		query.Set("clientid", v.ClientID)
	}
	return query
}

// heldBy returns the roles of a client, or of those without a username, in order of their
// evaluation. A client that does not exist has none.
func (q *request) heldBy(username string) ([]heldRole, error) {
	if username != "" {
		c, err := findOne[accessClient](q, clientsByName, username)
		if e, ok := errors.AsType[*apiError](err); ok && e.Code == "NOT_FOUND" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return q.heldRoles(c)
	}
	var anonymous anonymousGroup
	if err := q.get("getAnonymousGroup", nil, &anonymous); err != nil || anonymous.Name == "" {
		return nil, err
	}
	return q.heldRoles(accessClient{Groups: []groupRef{{Name: anonymous.Name}}})
}

// place marks the rules before the one that decided, that one and those after it, and
// returns the place of the default access, too. Many rules are reduced to those around
// the one that decided.
func (v *accessVerdict) place(rights []right) (rules []checkedRule, byDefault string) {
	at := slices.IndexFunc(rights, v.decidedBy)
	byDefault = placeSkipped
	switch {
	case v.Source == "default" || v.Source == "control":
		at, byDefault = len(rights), placeDecides
	case at < 0:
		byDefault = placeUntested
	}
	for i, r := range rights {
		c := checkedRule{right: r}
		switch {
		case at < 0:
		case i < at:
			c.Place = placePassed
		case i == at:
			c.Place = placeDecides
		default:
			c.Place = placeSkipped
		}
		rules = append(rules, c)
	}
	first := max(0, min(at-maxRights/2, len(rules)-maxRights))
	return rules[first:min(first+maxRights, len(rules))], byDefault
}

// defaultAccessView is the access that no rule decides about.
type defaultAccessView struct {
	accessView
	Form   form
	Access []defaultRule
	Err    *apiError
}

// defaultRule is the default access for one type of action.
type defaultRule struct {
	Type  string `json:"acltype"`
	Allow bool   `json:"allow"`
}

func viewDefaultAccess(q *request) (view, error) {
	v := &defaultAccessView{}
	var record struct {
		Lists [][]defaultRule `json:"acls"`
	}
	if err := q.get("getDefaultACLAccess", nil, &record); err != nil {
		v.Err = q.asAPIError(err)
		v.Missing = q.missing("dynamic-security", v.Err)
		return v, nil
	}
	for _, list := range record.Lists {
		v.Access = append(v.Access, list...)
	}
	v.Form = q.defaultForm(v.Access)
	return v, nil
}

func (q *request) defaultForm(access []defaultRule) form {
	var fields []field
	for _, e := range accessEvents {
		allowed := slices.ContainsFunc(access, func(r defaultRule) bool { return r.Type == e.defaultType && r.Allow })
		fields = append(fields, field{Name: e.defaultType, Kind: kindCheckbox, Checked: allowed,
			Label: q.t("default-access." + e.action), Hint: q.t("default-access." + e.action + ".hint")})
	}
	return q.newFormOf("save", "access.save", fields...)
}

func setDefaultAccess(q *request) (string, error) {
	var body []defaultRule
	for _, e := range accessEvents {
		body = append(body, defaultRule{e.defaultType, q.posted(e.defaultType) == "true"})
	}
	if err := q.do("setDefaultACLAccess", nil, body); err != nil {
		return "", err
	}
	return done(q.inBroker("default-access"), "default_access", ""), nil
}
