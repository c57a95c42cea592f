package apitest_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"signalbox/router/apitest"
	declared "signalbox/router/site"
)

// TestApplyClusters creates a cluster from a file, exports it, removes a node and adds it
// again, and deletes the cluster.
func TestApplyClusters(t *testing.T) {
	t.Parallel()
	all := startSites(t, 2)
	whole := &cutCalls{caller: all[0].Root, left: -1}
	nodes := make([]string, len(all))
	for i, s := range all {
		n := s.node()
		nodes[i] = fmt.Sprintf(`{"broker": %q, "nodeid": %d, "address": %q, "port": %d}`, []string{"embedded", "n2"}[i], s.id, n["address"], n["port"])
	}
	file := func(clusters string) *declared.Document {
		return siteOf(t, `{"version": 1, "projects": [{"name": "default", "clusters": [`+clusters+`]}]}`)
	}
	cluster := func(mode string, nodes ...string) *declared.Document {
		return file(`{"clustername": "plant", "syncmode": "` + mode + `", "nodes": [` + strings.Join(nodes, ", ") + `]}`)
	}
	apply := func(d *declared.Document, want ...string) {
		t.Helper()
		plan, err := declared.Compare(t.Context(), whole, d, declared.Options{Prune: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range plan.Steps {
			got = append(got, s.String())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got the plan %q, want %q", got, want)
		}
		if err := plan.Apply(t.Context(), func(declared.Step, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	apply(cluster("dynsec", nodes...), "create cluster plant (default)")
	apply(cluster("dynsec", nodes...))
	exported, err := declared.Export(t.Context(), whole, "default", "", func(part string, err error) { t.Errorf("%s: %v", part, err) })
	if err != nil || len(exported.Projects[0].Clusters) != 1 || len(exported.Projects[0].Clusters[0].Nodes) != 2 {
		t.Fatalf("exported %+v, %v", exported, err)
	}
	apply(exported)
	apply(cluster("dynsec", nodes[0]), "update cluster plant (default): node n2 leaves")
	apply(cluster("dynsec", nodes...), "update cluster plant (default): node n2 joins")
	for _, c := range []struct {
		d    *declared.Document
		want string
	}{
		{cluster("full", nodes...), "its syncmode is dynsec and cannot be changed to full"},
		{cluster("dynsec", nodes[0], strings.Replace(nodes[1], `"nodeid": 2`, `"nodeid": 3`, 1)), "node n2 is number 2"},
		{cluster("dynsec", nodes[0], strings.Replace(nodes[1], "n2", "n9", 1)), "the project has no broker n9"},
	} {
		if _, err := declared.Compare(t.Context(), whole, c.d, declared.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	apply(file(""), "delete cluster plant (default)")
	apply(file(""))
}

// TestSchemaIsServed serves the schema that the commands check files with.
func TestSchemaIsServed(t *testing.T) {
	t.Parallel()
	got := apitest.New(t).Anonymous().Get("/api/site.schema.json").Want(200)
	if !bytes.Equal(got.Body, declared.Schema) {
		t.Errorf("got %s", got.Body)
	}
}
