package apitest_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/router/appliance/backup"
)

// shareData has a node share the data of the platform. No leader is replaced only because the machine is busy.
func shareData(c *appliance.Config) {
	c.Cluster.ShareData, c.Cluster.ElectionTimeout = true, 3*time.Second
}

// stored returns the response to a change that is made again while the nodes have no leader to store it.
func stored(t *testing.T, change func() *apitest.Response) (r *apitest.Response) {
	t.Helper()
	waitFor(t, "the cluster stores a change", func() bool {
		r = change()
		return r.Status != 503
	})
	return r
}

// logIn returns a caller with a session of the root administrator.
func (s *site) logIn(t *testing.T) *apitest.Caller {
	t.Helper()
	return s.Bearer(s.newSession(t))
}

// newSession returns a session of the root administrator.
func (s *site) newSession(t *testing.T) string {
	t.Helper()
	var session struct{ Token string }
	stored(t, func() *apitest.Response {
		return s.Anonymous().Post("/api/auth/login", object{"email": apitest.RootEmail, "password": apitest.RootPassword})
	}).Want(200).Decode(&session)
	return session.Token
}

// makeProject creates a project.
func makeProject(t *testing.T, root *apitest.Caller, name string) (made handlers.ProjectRecord) {
	t.Helper()
	stored(t, func() *apitest.Response { return root.Post("/api/projects", object{"name": name}) }).Want(200).Decode(&made)
	return made
}

// TestClusterSharesData has three nodes share the data of the platform: users, tokens, projects and
// the secrets of connections are the same at each, and stay when a node leaves.
func TestClusterSharesData(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3, shareData)
	first := all[0]
	path := formCluster(t, all, "dynsec")
	token := first.TokenText("admin")
	for i, s := range all {
		waitFor(t, "the token of the first node is valid", func() bool {
			return s.Bearer(token).Get("/api/projects/"+first.Project+"/brokers").Status == 200
		})
		root := s.logIn(t)
		made := makeProject(t, root, "made at "+s.port)
		for _, other := range all {
			r := other.logIn(t)
			waitFor(t, "the project is at all nodes", func() bool { return r.Get("/api/projects/"+made.ID).Status == 200 })
		}
		// The broker of the next node is reached with the password that was stored at the first one.
		if next := all[(i+1)%len(all)]; next != first {
			waitFor(t, "the broker of the next node is connected", func() bool {
				return root.Get("/api/projects/"+first.Project+"/brokers/"+next.at+"/clients").Status == 200
			})
		}
	}
	last := all[2]
	root := last.logIn(t)
	first.leaveCluster(t, path, 3)
	waitState(t, first, path, "active", 2)
	waitFor(t, "the node that left has the data as its own", func() bool {
		return root.Post("/api/projects", object{"name": "alone"}).Status == 200
	})
	makeProject(t, first.Root, "without it")
}

const staleHeader = "Signalbox-Stale"

// TestClusterReadsAreCurrent reads at each node what was acknowledged at another one just before, and uses a
// token there that was revoked just before. A response that may be older states that.
func TestClusterReadsAreCurrent(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3, shareData)
	formCluster(t, all, "dynsec")
	session := all[0].newSession(t)
	current := map[int]int{} // responses that are not stale, by the status wanted
	read := func(c *apitest.Caller, path string, want int) {
		t.Helper()
		if r := c.Get(path); r.Header.Get(staleHeader) == "" {
			current[want]++
			r.Want(want)
		}
	}
	for i := range 20 {
		writer, reader := all[i%3], all[(i+1)%3]
		made := makeProject(t, writer.Bearer(session), fmt.Sprint("project ", i))
		read(reader.Bearer(session), "/api/projects/"+made.ID, 200)
	}
	root, tokens := all[0].Bearer(session), "/api/projects/"+all[0].Project+"/tokens"
	for i := range 6 {
		var made struct{ ID, Token string }
		stored(t, func() *apitest.Response {
			return root.Post(tokens, object{"name": fmt.Sprint("token ", i), "role": "admin", "type": "unrestricted", "brokers": []string{}})
		}).Want(200).Decode(&made)
		path, reader := "/api/projects/"+all[0].Project+"/brokers", all[1+i%2].Bearer(made.Token)
		read(reader, path, 200)
		stored(t, func() *apitest.Response { return root.Delete(tokens + "/" + made.ID) }).Want(200)
		read(reader, path, 401)
	}
	if current[200] == 0 || current[401] == 0 {
		t.Errorf("all responses of a kind may be old: %v", current)
	}
}

// TestClusterDataWithoutMajority starts a node alone: what is stored can be read, with the sessions and
// tokens of before, changes are refused, and it goes on when there is a majority again.
func TestClusterDataWithoutMajority(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3, shareData)
	first, second, third := all[0], all[1], all[2]
	formCluster(t, all, "dynsec")
	brokers := "/api/projects/" + first.Project + "/brokers"
	token := first.TokenText("admin")
	var root *apitest.Caller
	waitFor(t, "a session of the second node is stored", func() bool {
		var session struct{ Token string }
		r := second.Anonymous().Post("/api/auth/login", object{"email": apitest.RootEmail, "password": apitest.RootPassword})
		if r.Status != 200 {
			return false
		}
		r.Decode(&session)
		root = second.Bearer(session.Token)
		return second.Bearer(token).Get(brokers).Status == 200 && root.Get(brokers).Status == 200
	})
	browser, notice := second.Browser(apitest.RootEmail, apitest.RootPassword), "cannot ask the leader of its cluster"
	waitFor(t, "the console of the node shows what is current", func() bool { return !strings.Contains(browser.Get("/users").Text, notice) })
	third.Stop()
	second.Stop()
	first.Stop()
	second.Start()
	if page := browser.Get("/users"); page.Status != 200 || page.Path != "/users" || !strings.Contains(page.Text, notice) {
		t.Errorf("the console does not state that what it shows may be old: %d %s: %s", page.Status, page.Path, page.Text)
	}
	for _, c := range []*apitest.Caller{root, second.Bearer(token)} {
		if c.Get(brokers).Want(200).Header.Get(staleHeader) == "" {
			t.Error("it is not stated that what the node has may be old")
		}
	}
	if r := second.Anonymous().Get(brokers).Want(401); r.Header.Get(staleHeader) != "" {
		t.Error("the cluster is asked for a caller without a credential")
	}
	second.Anonymous().Get("/healthz").Want(200)
	began := time.Now()
	root.Post("/api/projects", object{"name": "refused"}).WantError(503, "BROKER_UNAVAILABLE")
	t.Logf("refused after %v", time.Since(began))
	root.Post("/api/projects/"+first.Project+"/brokers/"+second.Handlers.Embedded()+"/roles", object{"rolename": "refused"}).WantError(503, "BROKER_UNAVAILABLE")
	first.Start()
	waitFor(t, "a project is stored", func() bool { return root.Post("/api/projects", object{"name": "stored"}).Status == 200 })
	waitFor(t, "the end of operations is stored", func() bool {
		return root.Get("/api/audit?operation=createProject").Status == 200
	})
}

// TestClusterFollowsConnections has connections that are stored and deleted at one node used by the others,
// and the broker of each node under a record of its own, which others reach with credentials.
func TestClusterFollowsConnections(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3, shareData)
	first, second, third := all[0], all[1], all[2]
	formCluster(t, all, "dynsec")
	for _, s := range all {
		waitFor(t, "the broker of the node has a record", func() bool {
			own := s.Handlers.Embedded()
			s.Embedded = own
			return own != "" && first.Root.Get(first.BrokerAt(own, "")).Status == 200
		})
		s.Project = first.Project
		s.Root = s.logIn(t)
		s.Root.Get(s.At("/clients")).Want(200)
	}
	if r := brokerRecord(first.API, second.Embedded); r.Name != "embedded (node 2)" {
		t.Errorf("the record of the second node's broker, at the first one: %+v", r)
	}
	first.Root.Put(first.BrokerAt(second.Embedded, ""), object{"url": second.Listeners[1], "username": mqttAdmin, "password": mqttPassword}).Want(204)
	for _, s := range all {
		waitFor(t, "the broker is reached with the credentials", func() bool {
			return s.Root.Get(s.BrokerAt(second.Embedded, "/clients")).Status == 200
		})
	}
	if r := brokerRecord(second.API, second.Embedded); r.URL != second.Listeners[1] {
		t.Errorf("the address is %s, want the one that was stored", r.URL)
	}
	id := addBroker(t, second.API, object{"name": "line", "url": first.Listeners[0], "username": mqttAdmin, "password": mqttPassword})
	live := func(s *site, rev int64) bool { return s.Handlers.Brokers.Live(id, rev) != nil }
	for rev := range int64(2) {
		for _, s := range all {
			waitFor(t, "the connection is made", func() bool { return live(s, rev+1) })
		}
		second.Root.Put(second.BrokerAt(id, ""), object{"url": first.Listeners[1], "username": mqttAdmin, "password": mqttPassword}).Want(204)
	}
	third.Root.Delete(third.BrokerAt(id, "")).Want(204)
	for _, s := range all {
		waitFor(t, "the connection is closed", func() bool { return !live(s, 1) })
	}
}

// TestClusterShareDataAgrees refuses nodes with another setting than that of the cluster.
func TestClusterShareDataAgrees(t *testing.T) {
	t.Parallel()
	for _, shares := range []bool{true, false} {
		started := 0
		all := startSites(t, 2, func(c *appliance.Config) {
			c.Cluster.ShareData = shares == (started == 0)
			started++
		})
		first := all[0]
		e := first.Root.Post("/api/projects/"+first.Project+"/clusters",
			object{"clustername": "plant", "syncmode": "dynsec", "nodes": []object{all[0].node(), all[1].node()}}).WantError(400, "CONFLICT").Error()
		if !strings.Contains(e.Message, "cluster.share_data") {
			t.Errorf("got %q, which does not name the setting", e.Message)
		}
		for _, s := range all {
			s.Root.Post("/api/projects", object{"name": "of its own"}).Want(200)
		}
	}
}

// TestClusterDataStays refuses what would change shared data alone: to start without the setting, to reset
// a password, and to restore them from a backup.
func TestClusterDataStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startSites(t, 1, shareData, apitest.In(dir))[0]
	formCluster(t, []*site{s}, "dynsec")
	c := appliance.DefaultConfig()
	c.DataDir, c.HTTP.Listen, c.Broker.Listen = dir, "127.0.0.1:0", "127.0.0.1:0"
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	s.Stop()
	if _, err := appliance.ResetPassword(t.Context(), c, apitest.RootEmail, "another password", false); err == nil || !strings.Contains(err.Error(), "cluster.share_data") {
		t.Errorf("reset a password: got %v", err)
	}
	if _, err := appliance.Backup(t.Context(), c, file, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := appliance.Restore(t.Context(), c, file, backup.Identities{}, appliance.RestoreOptions{Only: appliance.OnlyPlatform}); err == nil || !strings.Contains(err.Error(), "cluster.share_data") {
		t.Errorf("restore the platform: got %v", err)
	}
	if _, err := appliance.Start(t.Context(), c, appliance.Program{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "cluster.share_data") {
		t.Errorf("start without the setting: got %v", err)
	}
	if _, err := appliance.Restore(t.Context(), c, file, backup.Identities{}, appliance.RestoreOptions{Cluster: appliance.RestoreAlone}); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.Root.Post("/api/projects", object{"name": "alone"}).Want(200)
}
