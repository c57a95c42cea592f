package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// firstStepsPages lead a new operator to the first message.
func firstStepsPages() []*page {
	return []*page{
		{path: "/ui/first-steps", name: "first-steps", role: viewer, help: "first-steps", calls: []string{"listProjects", "listBrokers", "listRoles", "listClients", "listBackups", "setPreferences"},
			view: viewFirstSteps, actions: map[string]action{"dismiss": dismissFirstSteps}, fragments: []string{"steps"}},
	}
}

// firstStepsView is the list of first steps, for one broker.
type firstStepsView struct {
	frame
	Steps []step
	Shown bool // not dismissed
}

// step is a step with its state, as far as the API knows it.
type step struct {
	Name    string
	Text    string
	State   string // "done", "open", or "" if it is not known
	To      string // page, "" for none
	Action  string
	Command string // to be copied, "" for none
}

// maxSearched bounds the projects that are searched for a broker.
const maxSearched = 10

// firstBroker returns a broker that the steps are about, with its project: one that is
// connected, if the first projects of the caller have any.
func (q *request) firstBroker() (found *brokerRecord, in string) {
	lists := make([]part[[]brokerRecord], min(maxSearched, len(q.me.Projects)))
	var g parts
	for i := range lists {
		loadWith(&g, q, &lists[i], "listBrokers", map[string]string{"projectId": q.me.Projects[i].ID}, nil)
	}
	g.wait()
	for i := range lists {
		for j := range lists[i].Value {
			b := &lists[i].Value[j]
			if found == nil || b.Status.Connected && !found.Status.Connected {
				found, in = b, q.me.Projects[i].ID
			}
		}
	}
	return found, in
}

// state returns "done" if a condition holds, otherwise "open".
func state(done bool) string {
	if done {
		return "done"
	}
	return "open"
}

func viewFirstSteps(q *request) (view, error) {
	v := &firstStepsView{Shown: !q.prefs.FirstStepsDismissed}
	v.add(q, step{Name: "password", To: "account"})
	b, project := q.firstBroker()
	if b == nil {
		s := step{Name: "broker", State: "open", To: "projects"}
		if len(q.me.Projects) > 0 && q.roleIn(q.me.Projects[0].ID) >= admin {
			s.To = "p/" + q.me.Projects[0].ID + "/brokers/new"
		}
		v.add(q, s)
		return v, nil
	}
	base := "p/" + project + "/b/" + b.ID
	v.add(q, step{Name: "broker", State: state(b.Status.Connected), To: base + "/overview"})
	roles, clients := q.counts(project, b.ID)
	role, client := step{Name: "role", State: state(roles > 1)}, step{Name: "client", State: state(clients > 1)}
	if q.roleIn(project) >= editor {
		role.To, client.To = base+"/roles/new", base+"/clients/new"
	}
	v.add(q, role)
	v.add(q, client)
	v.add(q, step{Name: "device", Command: deviceCommand(b.URL)})
	v.add(q, q.backupStep())
	return v, nil
}

// backupStep leads administrators to the backups, and others to the manual.
func (q *request) backupStep() step {
	if !q.me.Root {
		return step{Name: "backup", To: "../docs/backup"}
	}
	var made []backupRecord
	q.get("listBackups", nil, &made) //nolint:errcheck // the step is open without them
	return step{Name: "backup", State: state(slices.ContainsFunc(made, func(b backupRecord) bool { return b.State == "verified" })), To: "backups", Action: q.t("title.backups")}
}

// counts returns how many roles and clients a broker has; each has one of its own, that
// of the administrator.
func (q *request) counts(project, id string) (roles, clients int) {
	var g parts
	var r, c part[[]any]
	params, one := map[string]string{"projectId": project, "brokerId": id}, url.Values{"count": {"1"}}
	loadWith(&g, q, &r, "listRoles", params, one)
	loadWith(&g, q, &c, "listClients", params, one)
	g.wait()
	return r.Total, c.Total
}

// deviceCommand returns the command with which a device publishes to a broker.
func deviceCommand(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	parts := []string{"mosquitto_pub", "-h", u.Hostname()}
	if u.Port() != "" {
		parts = append(parts, "-p", u.Port())
	}
	return strings.Join(append(parts, "-u", "USERNAME", "-P", "PASSWORD", "-t", "plant/7/pressure", "-m", "4.2", "-q", "1"), " ")
}

func (v *firstStepsView) add(q *request, s step) {
	s.Text = q.t("steps." + s.Name + ".text")
	if s.To != "" {
		s.Action = cmp.Or(s.Action, q.t("steps."+s.Name+".action"))
	}
	s.Name = q.t("steps." + s.Name)
	v.Steps = append(v.Steps, s)
}

func dismissFirstSteps(q *request) (string, error) {
	return "home", q.do("setPreferences", nil, map[string]any{"first_steps_dismissed": true})
}
