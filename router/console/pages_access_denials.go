package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Explainable reports whether a rule may have caused the denial.
func (d denialRecord) Explainable() bool { return d.Topic != "" && d.Action != "connect" }

// denialsView is the list of denials.
type denialsView struct {
	accessView
	Denials part[[]denialRecord]
	Paging  paging
}

func viewDenials(q *request) (view, error) {
	v := &denialsView{}
	var g parts
	load(&g, q, &v.Denials, "listDenials", q.listQuery())
	g.wait()
	v.Missing, v.Paging = q.missing("denials", v.Denials.Err), q.pagingOf("listDenials", v.Denials.Total)
	return v, nil
}

// denialAllowView is the change of a role that allows what was denied.
type denialAllowView struct {
	accessView
	Denied  triedTopic
	Verdict accessVerdict
	Form    form
	Roles   []gainedRole // those of the client
}

// gainedRole is a role of the client, with the others who gain the right by a change of
// the role.
type gainedRole struct {
	Name  string
	Group string // through which the client has it, "" if it has it itself
	Use   roleUse
}

// newRole is the choice of a role that only this client has. No role has an empty name.
const newRole = ""

// maxChoices bounds the roles that a page offers.
const maxChoices = 20

func (q *request) denied() triedTopic {
	return triedTopic{q.query.Get("action"), q.query.Get("topic"), q.query.Get("username"), q.query.Get("clientid")}
}

func viewDenialAllow(q *request) (view, error) {
	v := &denialAllowView{Denied: q.denied()}
	check := checkView{Username: v.Denied.Username, ClientID: v.Denied.ClientID, Action: v.Denied.Action, Topic: v.Denied.Topic}
	if err := q.get("checkAccess", check.question(), &v.Verdict); err != nil {
		return nil, err
	}
	held, err := q.heldBy(v.Denied.Username)
	if err != nil {
		return nil, err
	}
	for _, h := range held[:min(len(held), maxChoices)] {
		role := gainedRole{Name: h.Name}
		if h.group != nil {
			role.Group = h.group.Name
		}
		if !slices.ContainsFunc(v.Roles, func(r gainedRole) bool { return r.Name == h.Name }) {
			v.Roles = append(v.Roles, role)
		}
	}
	var g parts
	for i := range v.Roles {
		v.Roles[i].Use.load(&g, q, v.Roles[i].Name)
	}
	g.wait()
	v.Form = q.allowForm(v)
	return v, nil
}

// allowForm returns the form with the rule that allows the denied action.
func (q *request) allowForm(v *denialAllowView) form {
	e, _ := accessEventOf(v.Denied.Action)
	var types, roles []option
	for _, t := range e.types {
		types = append(types, option{t, t})
	}
	if v.Denied.Username != "" {
		roles = append(roles, option{newRole, q.t("allow.new_role")})
	}
	for _, r := range v.Roles {
		roles = append(roles, option{r.Name, show(r.Name)})
	}
	f := q.newFormOf("allow", "allow.submit",
		field{Name: "role", Kind: kindSelect, Label: q.t("allow.role"), Hint: q.t("allow.role.hint"), Options: roles, Value: newRole},
		field{Name: "new", Kind: kindText, Label: q.t("allow.name"), Hint: q.t("allow.name.hint"), Value: "allow-" + v.Denied.Username},
		field{Name: "acltype", Kind: kindSelect, Label: q.t("rules.type"), Options: types, Value: firstValue(types)},
		field{Name: "topic", Kind: kindText, Label: q.t("rules.topic"), Hint: q.t("allow.topic.hint"), Value: v.Denied.Topic, Required: true},
		field{Name: "priority", Kind: kindNumber, Label: q.t("rules.priority"), Hint: q.t("allow.priority.hint"), Value: fmt.Sprint(v.priority()), Min: "-100000", Max: "100000"})
	f.Cancel = q.linkInBroker("denials")
	return f
}

// firstValue returns the value of the first choice; literal rules come first.
func firstValue(options []option) string {
	if len(options) == 0 {
		return ""
	}
	return options[0].Value
}

// MayAllow reports whether a rule of a role can allow what was denied, and the client can
// have a role.
func (v *denialAllowView) MayAllow() bool {
	return v.Verdict.fixable() && (v.Denied.Username != "" || len(v.Roles) > 0)
}

// priority returns the priority with which a rule comes before the one that denied.
func (v *denialAllowView) priority() int {
	if v.Verdict.Rule == nil {
		return 0
	}
	return min(v.Verdict.Rule.Priority+1, 100000)
}

// allowDenied adds the posted rule to a role of the client, or to a new one, and leads to
// the check of what was denied.
func allowDenied(q *request) (string, error) {
	tried := q.denied()
	rule := q.allowForm(&denialAllowView{Denied: tried}).body(q.http.PostForm)
	role, name := q.posted("role"), strings.TrimSpace(q.posted("new"))
	delete(rule, "role")
	delete(rule, "new")
	rule["allow"] = true
	if _, ok := rule["priority"]; !ok {
		rule["priority"] = 0
	}
	var err error
	if role == newRole {
		err = q.allowByNewRole(tried.Username, name, rule)
	} else {
		err = q.allowByRole(role, rule)
	}
	if err != nil {
		return "", memberError(err)
	}
	next := q.inBroker("check", "username", tried.Username, "clientid", tried.ClientID, "action", tried.Action, "topic", tried.Topic)
	return done(next, "denial_allowed", cmp.Or(role, name)), nil
}

// allowByRole adds a rule to a role; one with the same type and topic is replaced.
func (q *request) allowByRole(name string, rule map[string]any) error {
	r, err := findOne[accessRole](q, rolesByName, name)
	if err != nil {
		return err
	}
	rules := slices.DeleteFunc(r.Rules, func(a accessRule) bool { return a.Type == rule["acltype"] && a.Topic == rule["topic"] })
	return q.do("modifyRole", nil, map[string]any{"rolename": name, "acls": withEntries(rules, rule)})
}

// allowByNewRole creates a role with a rule for one client. The role comes before all
// others of the client. It is deleted if the client cannot get it.
func (q *request) allowByNewRole(username, name string, rule map[string]any) error {
	c, err := findOne[accessClient](q, clientsByName, username)
	if err != nil {
		return err
	}
	priority := defaultPriority
	for _, r := range c.Roles {
		priority = max(priority, r.Rank()+1)
	}
	if err := q.do("createRole", nil, map[string]any{"rolename": name, "acls": []any{rule}}); err != nil {
		return err
	}
	entry := map[string]any{"rolename": name, "priority": min(priority, 100000)}
	if err := q.do("modifyClient", nil, map[string]any{"username": username, "roles": withEntries(c.Roles, entry)}); err != nil {
		_ = q.do("deleteRole", url.Values{"rolename": {name}}, nil) // the error of the client is the one to show
		return err
	}
	return nil
}
