package apitest_test

import (
	"testing"

	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// TestClusterSharesData has three nodes share the data of the platform: users, tokens, projects and
// the secrets of connections are the same at each, and stay when a node leaves.
func TestClusterSharesData(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3, func(c *appliance.Config) { c.Cluster.ShareData = true })
	first := all[0]
	path := formCluster(t, all, "dynsec")
	token := first.TokenText("admin")
	for i, s := range all {
		waitFor(t, "the token of the first node is valid", func() bool {
			return s.Bearer(token).Get("/api/projects/"+first.Project+"/brokers").Status == 200
		})
		root := s.LogIn(apitest.RootEmail, apitest.RootPassword)
		var made handlers.ProjectRecord
		root.Post("/api/projects", object{"name": "made at " + s.port}).Want(200).Decode(&made)
		for _, other := range all {
			r := other.LogIn(apitest.RootEmail, apitest.RootPassword)
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
	root := last.LogIn(apitest.RootEmail, apitest.RootPassword)
	first.Root.Put(path+"/leave", object{"nodeid": 3}).Want(204)
	waitState(t, first, path, "active", 2)
	waitFor(t, "the node that left has the data as its own", func() bool {
		return root.Post("/api/projects", object{"name": "alone"}).Status == 200
	})
	first.Root.Post("/api/projects", object{"name": "without it"}).Want(200)
}
