package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// roleDraft is a role as the editor has it, before it is saved. The draft stands in the
// posted form only, so that the editor works without scripts and in several tabs.
type roleDraft struct {
	accessRole
	IsNew   bool
	AsLines bool        // the rules are edited as text
	Lines   string      // the rules as text
	Bad     []lineError // of that text
	Base    string      // fingerprint of the role that was edited
	Tried   triedTopic
}

// maxTableRules bounds the rules that are edited in a table; more are edited as text.
const maxTableRules = 40

// roleEditorView is the editor of a role.
type roleEditorView struct {
	accessView
	Draft   roleDraft
	Types   []option
	Actions []option
	NewRule accessRule   // the row for a new rule
	Preview bool         // what saving changes is shown
	Changes []ruleChange // from the saved role to the draft
	Texts   []textChange
	Use     roleUse
	Control bool // saving takes a right to manage the broker
	Cancel  string
	Verdict *draftVerdict // of the tried topic
}

// textChange is a difference between two versions of a text of a role.
type textChange struct{ Label, Before, After string }

// fingerprint identifies a version of a role, so that saving a draft does not undo the
// change of another person.
func (r *accessRole) fingerprint() string {
	b, _ := json.Marshal(r) // strings and numbers always have a form
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func viewRoleEditor(q *request) (view, error) {
	v := &roleEditorView{Actions: q.actionOptions(), NewRule: accessRule{Type: ruleTypes[0], Allow: true}}
	v.Draft.IsNew = q.page.name == "role-new"
	saved := accessRole{AllowWildcardSubs: true}
	v.Cancel = q.linkInBroker("roles")
	if !v.Draft.IsNew {
		var err error
		if saved, err = q.accessRole(); err != nil {
			return nil, err
		}
		v.Title, v.Cancel = q.t("role-edit.of", saved.Name), q.linkInBroker("role", "rolename", saved.Name)
	}
	for _, t := range ruleTypes {
		v.Types = append(v.Types, option{t, t})
	}
	if q.http.Method != http.MethodPost {
		v.Draft.accessRole, v.Draft.Base = saved, saved.fingerprint()
		v.Draft.prepare()
		return v, nil
	}
	v.Draft = q.postedDraft()
	v.applyStep(q, saved)
	return v, nil
}

// applyStep applies the button with which the draft was posted.
func (v *roleEditorView) applyStep(q *request, saved accessRole) {
	d := &v.Draft
	step, argument, _ := strings.Cut(q.posted("step"), ":")
	i, _ := strconv.Atoi(argument)
	switch step {
	case "remove":
		if i >= 0 && i < len(d.Rules) {
			d.Rules = slices.Delete(d.Rules, i, i+1)
		}
	case "up":
		d.move(i, -1)
	case "down":
		d.move(i, +1)
	case "lines":
		d.AsLines = true
	case "table":
		d.AsLines = false
	case "try":
		v.Verdict = d.try()
	case "preview":
		v.preview(q, saved)
	case "save":
		if q.failure != nil && q.failure.Code == "CONFLICT" { // with what another person has changed
			v.preview(q, saved)
		}
	}
	if len(d.Bad) == 0 {
		d.prepare()
	}
}

// move moves a rule of the posted table: in the order of evaluation, which its own changes
// may have altered.
func (d *roleDraft) move(i, by int) {
	if i < 0 || i >= len(d.Rules) {
		return
	}
	moved := d.Rules[i]
	sortRules(d.Rules)
	moveRule(d.Rules, slices.Index(d.Rules, moved), by)
}

// preview has the page show what saving changes, unless there is an error.
func (v *roleEditorView) preview(q *request, saved accessRole) {
	d := &v.Draft
	if d.Bad != nil || q.failure != nil && q.failure.Code != "CONFLICT" {
		return
	}
	v.Preview, v.Changes = true, diffRules(saved.Rules, d.Rules)
	v.Control = slices.ContainsFunc(v.Changes, func(c ruleChange) bool { return c.Before.manages() && !c.After.manages() })
	d.Base = saved.fingerprint()
	for _, c := range []textChange{
		{q.t("access.textname"), saved.TextName, d.TextName},
		{q.t("access.textdescription"), saved.TextDescription, d.TextDescription},
		{q.t("role.wildcards"), q.yes(saved.AllowWildcardSubs), q.yes(d.AllowWildcardSubs)},
	} {
		if c.Before != c.After {
			v.Texts = append(v.Texts, c)
		}
	}
	if !d.IsNew {
		var g parts
		v.Use.load(&g, q, saved.Name)
		g.wait()
	}
}

// prepare orders the rules and writes them as text.
func (d *roleDraft) prepare() {
	sortRules(d.Rules)
	d.AsLines = d.AsLines || len(d.Rules) > maxTableRules
	d.Lines = formatRules(d.Rules)
}

// Full reports whether the rules are too many for the table.
func (d *roleDraft) Full() bool { return len(d.Rules) > maxTableRules }

// postedDraft returns the draft of the posted form: its rules are those of the table or
// of the text, those that were pasted, and the row for a new one.
func (q *request) postedDraft() roleDraft {
	d := roleDraft{IsNew: q.page.name == "role-new", AsLines: q.posted("mode") == "lines", Base: q.posted("base")}
	d.Name, d.TextName, d.TextDescription = q.posted("rolename"), q.posted("textname"), q.posted("textdescription")
	if !d.IsNew {
		d.Name = q.query.Get("rolename")
	}
	d.AllowWildcardSubs = q.posted("allowwildcardsubs") == "true"
	d.Lines = q.posted("lines")
	d.Rules, d.Bad = parseRules(d.Lines)
	if !d.AsLines {
		d.Rules = append(q.postedRules(), d.Rules...)
	}
	if d.Bad != nil { // the text is shown again as it was posted
		d.AsLines, d.Lines = true, formatRules(q.postedRules())+d.Lines
		_, d.Bad = parseRules(d.Lines)
	}
	d.Tried = triedTopic{q.posted("try/action"), q.posted("try/topic"), q.posted("try/username"), q.posted("try/clientid")}
	return d
}

// postedRules returns the rules of the table, and of the row for a new one if that has a
// topic.
func (q *request) postedRules() (rules []accessRule) {
	for i := range maxTableRules {
		if prefix := "acls/" + strconv.Itoa(i); q.http.PostForm.Has(prefix + "/topic") {
			rules = append(rules, q.postedRule(prefix))
		}
	}
	if r := q.postedRule("new"); r.Topic != "" {
		rules = append(rules, r)
	}
	return rules
}

// wrongPriority returns the name of a posted priority that is not a number, "" if
// there is none.
func (q *request) wrongPriority() string {
	for name, values := range q.http.PostForm {
		if !strings.HasSuffix(name, "/priority") || values[0] == "" {
			continue
		}
		if _, err := strconv.Atoi(values[0]); err != nil {
			return name
		}
	}
	return ""
}

func (q *request) postedRule(prefix string) accessRule {
	priority, _ := strconv.Atoi(q.posted(prefix + "/priority"))
	return accessRule{Type: q.posted(prefix + "/acltype"), Topic: q.posted(prefix + "/topic"), Priority: priority,
		Allow: q.posted(prefix+"/allow") == "true"}
}

// body returns the body of the operations that create and change the role.
func (d *roleDraft) body() map[string]any {
	rules := d.Rules
	if rules == nil {
		rules = []accessRule{}
	}
	return map[string]any{"rolename": d.Name, "textname": d.TextName, "textdescription": d.TextDescription,
		"allowwildcardsubs": d.AllowWildcardSubs, "acls": rules}
}

func createRole(q *request) (string, error) {
	d, err := q.draftToSave()
	if err != nil {
		return "", err
	}
	if err := q.do("createRole", nil, d.body()); err != nil {
		return "", err
	}
	return done(q.inBroker("role", "rolename", d.Name), "role_created", d.Name), nil
}

func editRole(q *request) (string, error) {
	d, err := q.draftToSave()
	if err != nil {
		return "", err
	}
	saved, err := q.accessRole()
	if err != nil {
		return "", err
	}
	if saved.fingerprint() != d.Base {
		return "", &apiError{Status: http.StatusBadRequest, Code: "CONFLICT", Message: q.t("role.changed_meanwhile")}
	}
	if err := q.do("modifyRole", nil, d.body()); err != nil {
		return "", err
	}
	return done(q.inBroker("role", "rolename", d.Name), "role_changed", d.Name), nil
}

// draftToSave returns the posted draft, or errShow if the button was not that for
// saving.
func (q *request) draftToSave() (roleDraft, error) {
	d := q.postedDraft()
	if name := q.wrongPriority(); name != "" {
		return d, q.invalid(name, q.t("rules.wrong_priority"))
	}
	if q.posted("step") != "save" {
		return d, errShow
	}
	if len(d.Bad) > 0 {
		return d, q.invalid("lines", q.t("role.bad_lines"))
	}
	sortRules(d.Rules)
	return d, nil
}
