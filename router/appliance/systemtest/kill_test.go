package systemtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// kills is how often TestCampaignKill kills the service: SIGNALBOX_TEST_KILLS, or a
// few.
func kills(t *testing.T) int {
	t.Helper()
	return max(1, suite.FromEnvironment(t, "SIGNALBOX_TEST_KILLS", 10))
}

// TestCampaignKill kills the service repeatedly while it acknowledges writes over the
// HTTP API and over $CONTROL. After each restart everything that was acknowledged
// exists, and what was not exists completely or not at all.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	c := &killCampaign{dir: dataDir(t), all: newExpectedState(0), random: suite.Rand(t)}
	p := serve(t, c.dir, configured(nil))
	c.root = root(t, p)
	for n := kills(t); c.kills < n && !t.Failed(); {
		p = c.round(t, p, 1+c.random.IntN(100))
	}
	c.compareAll(t)
	p.stop(t)
	t.Logf("%d kills: %d acknowledged changes compared, none may be lost; restart %v on average, %v at most",
		c.kills, c.acknowledged, (c.restarts / time.Duration(c.rounds)).Round(time.Millisecond), c.slowest.Round(time.Millisecond))
}

// killCampaign is many rounds of writing and killing on one data directory.
type killCampaign struct {
	random *rand.Rand
	dir    string
	root   *caller        // its session survives the kills
	all    *expectedState // of the clients of all rounds
	rounds int
	kills  int

	acknowledged int
	restarts     time.Duration // in total
	slowest      time.Duration
}

// round writes, kills after n acknowledgements, starts again and compares.
func (c *killCampaign) round(t *testing.T, p *service, n int) *service {
	t.Helper()
	c.rounds++
	prefix := fmt.Sprintf("r%04d", c.rounds)
	l := newExpectedState(n)
	var writers sync.WaitGroup
	c.startWriters(t, p, l, prefix, &writers)
	l.await(t)
	p.Kill()
	c.kills++
	writers.Wait()
	p = c.restart(t)
	c.compare(t, p, l, prefix)
	return p
}

// startWriters creates what they share and starts them.
func (c *killCampaign) startWriters(t *testing.T, p *service, l *expectedState, prefix string, writers *sync.WaitGroup) {
	t.Helper()
	api := httpAPI{t, t.Context(), c.root}
	control := []*controlAPI{newControlAPI(t, p, "one"), newControlAPI(t, p, "two")}
	control[0].send("createRole", object{"rolename": prefix})
	api.send("POST", api.at("/groups"), object{"groupname": prefix})
	for i, d := range []accessAPI{api, api, control[0], control[1]} {
		writer := "w" + strconv.Itoa(i)
		api.send("POST", api.at("/roles"), object{"rolename": prefix + "-" + writer})
		writers.Go(func() { work(l, d, prefix, writer) })
	}
	writers.Go(func() { api.projects(l, prefix) })
}

// restart starts the service after a kill. Sometimes it is killed once more while it
// starts.
func (c *killCampaign) restart(t *testing.T) *service {
	t.Helper()
	if c.random.IntN(5) == 0 {
		p := launch(t, c.dir, configured(nil))
		select {
		case <-p.Done():
		case <-time.After(time.Duration(c.random.IntN(200)) * time.Millisecond):
		}
		p.Kill()
		c.kills++
	}
	began := time.Now()
	p := serve(t, c.dir, configured(nil))
	took := time.Since(began)
	c.restarts += took
	c.slowest = max(c.slowest, took)
	c.root.url = p.API
	return p
}

// compare compares what exists with what was acknowledged in the last round.
func (c *killCampaign) compare(t *testing.T, p *service, l *expectedState, prefix string) {
	t.Helper()
	c.acknowledged += l.acknowledged()
	clients := c.clients(t, prefix)
	present := c.projects(t, prefix)
	for name, record := range clients {
		present[name] = true
		if diff := cmp.Diff(normal(t, wantClient(prefix, name)), record); diff != "" {
			t.Errorf("client %s is incomplete (-want +got):\n%s", name, diff)
		}
	}
	if lost, stray := l.differences(present); len(lost)+len(stray) > 0 {
		t.Errorf("after kill %d: lost %v, stray %v", c.kills, lost, stray)
	}
	l.resolve(present)
	c.compareGroup(t, prefix, clients)
	c.compareRoles(t, prefix, l)
	c.tryPassword(t, p, clients)
	c.dropProjects(t, prefix, l)
	c.all.merge(l)
}

// record is a record of the API without what a restart changes.
type record map[string]any

// normal returns a value as decoded from JSON.
func normal(t *testing.T, v any) (r record) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// listed returns the records of a type whose name begins with prefix.
func (c *killCampaign) listed(t *testing.T, kind, nameMember, prefix string) map[string]record {
	t.Helper()
	var list []record
	c.root.must(t, "GET", c.root.at("/"+kind+"?filterMode=startsWith&filterValue="+prefix), nil, &list)
	byName := map[string]record{}
	for _, r := range list {
		byName[r[nameMember].(string)] = r
	}
	return byName
}

func (c *killCampaign) clients(t *testing.T, prefix string) map[string]record {
	t.Helper()
	clients := c.listed(t, "clients", "username", prefix)
	for _, r := range clients {
		delete(r, "connections")
		delete(r, "disabled")
	}
	return clients
}

// compareGroup checks that group and clients agree about the members.
func (c *killCampaign) compareGroup(t *testing.T, prefix string, clients map[string]record) {
	t.Helper()
	group := c.listed(t, "groups", "groupname", prefix)[prefix]
	members, _ := group["clients"].([]any)
	if len(members) != len(clients) {
		t.Errorf("group %s has %d members, but %d clients say that they are", prefix, len(members), len(clients))
	}
	for _, m := range members {
		if name := m.(map[string]any)["username"].(string); clients[name] == nil {
			t.Errorf("group %s has the member %s, which is no client", prefix, name)
		}
	}
}

// compareRoles checks that each writer's role has its last acknowledged revision, or
// the next one.
func (c *killCampaign) compareRoles(t *testing.T, prefix string, l *expectedState) {
	t.Helper()
	for name, got := range c.listed(t, "roles", "rolename", prefix+"-") {
		delete(got, "allowwildcardsubs")
		acknowledged := l.revisions[name]
		diff := ""
		for _, revision := range []int{acknowledged, acknowledged + 1} {
			want := normal(t, wantRole(name, revision))
			if revision == 0 {
				want = record{"rolename": name, "acls": []any{}}
			}
			if diff = cmp.Diff(want, got); diff == "" {
				break
			}
		}
		if diff != "" {
			t.Errorf("role %s is neither revision %d nor the next (-next +got):\n%s", name, acknowledged, diff)
		}
	}
}

// tryPassword logs a client of the round in: the hash is not stored with the record.
func (c *killCampaign) tryPassword(t *testing.T, p *service, clients map[string]record) {
	t.Helper()
	for name := range clients {
		if _, err := mqtttest.LogIn(t, p.MQTT, name+"-id", name, passwordOf(name)); err != nil {
			t.Errorf("log in as %s: %v", name, err)
		}
		return // each log-in costs a hash
	}
}

// projects returns the names of the round's projects, and checks that each has its
// owner.
func (c *killCampaign) projects(t *testing.T, prefix string) map[string]bool {
	t.Helper()
	present := map[string]bool{}
	for name, id := range c.projectIDs(t, prefix) {
		present[name] = true
		var project struct {
			Role  string
			Owner struct{ UserID, Name string }
		}
		c.root.must(t, "GET", "/api/projects/"+id, nil, &project)
		if project.Role != "admin" || project.Owner.UserID == "" || project.Owner.Name == "" {
			t.Errorf("project %s is incomplete: %+v", name, project)
		}
	}
	return present
}

func (c *killCampaign) projectIDs(t *testing.T, prefix string) map[string]string {
	t.Helper()
	var list []struct{ ID, Name string }
	c.root.must(t, "GET", "/api/projects", nil, &list)
	ids := map[string]string{}
	for _, p := range list {
		if strings.HasPrefix(p.Name, prefix) {
			ids[p.Name] = p.ID
		}
	}
	return ids
}

// dropProjects deletes the round's projects, so that listing them stays cheap.
func (c *killCampaign) dropProjects(t *testing.T, prefix string, l *expectedState) {
	t.Helper()
	for name, id := range c.projectIDs(t, prefix) {
		c.root.must(t, "DELETE", "/api/projects/"+id, nil, nil)
		l.records[name] = deleted
	}
}

// compareAll compares the clients and projects of all rounds.
func (c *killCampaign) compareAll(t *testing.T) {
	t.Helper()
	present := map[string]bool{}
	for _, name := range c.root.names(t, "clients") {
		present[name] = true
	}
	for name := range c.projectIDs(t, "r") {
		present[name] = true
	}
	delete(present, mqttAdmin)
	if lost, stray := c.all.differences(present); len(lost)+len(stray) > 0 {
		t.Errorf("in the end: lost %v, stray %v", clip(lost), clip(stray))
	}
}

func clip(names []string) []string { return slices.Clone(names[:min(len(names), 20)]) }
