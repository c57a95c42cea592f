package site

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"signalbox/broker"
)

// Cluster is a cluster of brokers of a project, identified by its name.
type Cluster struct {
	ClusterName string `json:"clustername"`
	SyncMode    string `json:"syncmode"`
	Nodes       []Node `json:"nodes"`
}

// Node is a broker of a cluster. The list of nodes replaces the whole list.
type Node struct {
	Broker  string `json:"broker"` // its name in the project
	NodeID  int    `json:"nodeid"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address"`
	Port    int    `json:"port"`
}

func (c Cluster) name() string { return c.ClusterName }
func (n Node) name() string    { return n.Broker }

// clusters compares the clusters of a project. Nodes leave before brokers are deleted, and
// join at last: they take over the access control of the cluster.
func (c *comparison) clusters(ctx context.Context, p project, want Project) error {
	if want.Clusters == nil || c.options.Only {
		return nil
	}
	r, list := reader{api: c.api}, []broker.Cluster{}
	r.get(ctx, p.path("/clusters"), nil, &list)
	have, err := unique(list, "cluster", func(c broker.Cluster) string { return c.ClusterName }, everyName, r.err)
	if err != nil {
		return err
	}
	brokers, err := readBrokers(ctx, c.api, p, func(name string) bool {
		return slices.ContainsFunc(want.Clusters, func(c Cluster) bool { return slices.Contains(names(c.Nodes, Node.name), name) })
	})
	if err != nil {
		return err
	}
	for _, w := range want.Clusters {
		at, exists := have[w.ClusterName]
		delete(have, w.ClusterName)
		if err := c.cluster(p, want, w, at, exists, brokers); err != nil {
			return fmt.Errorf("cluster %s of project %s: %w", w.ClusterName, p.Name, err)
		}
	}
	for _, name := range sorted(have) {
		c.add(Step{Action: Delete, Project: p.Name, Kind: "cluster", Name: name, phase: leaveClusters,
			do: c.call("DELETE", p.path("/clusters/"+url.PathEscape(have[name].ID)), url.Values{"clustername": {name}}, nil)})
	}
	return nil
}

// cluster compares a cluster. One with brokers that are not added yet is compared later.
func (c *comparison) cluster(p project, file Project, want Cluster, have broker.Cluster, exists bool, brokers map[string]managed) error {
	for _, n := range want.Nodes {
		switch declared := slices.ContainsFunc(file.Brokers, func(b Broker) bool { return b.Name == n.Broker && b.URL != "" }); {
		case hasKey(brokers, n.Broker):
		case !declared:
			return fmt.Errorf("the project has no broker %s, and the file has none with a url to add it", n.Broker)
		default:
			c.later = append(c.later, p.Name+"/"+want.ClusterName)
			return nil
		}
	}
	if !exists {
		nodes := []map[string]any{}
		for _, n := range want.Nodes {
			nodes = append(nodes, n.body(brokers))
		}
		c.add(Step{Action: Create, Project: p.Name, Kind: "cluster", Name: want.ClusterName, phase: joinClusters,
			do: c.call("POST", p.path("/clusters"), nil, map[string]any{"clustername": want.ClusterName, "syncmode": want.SyncMode, "nodes": nodes})})
		return nil
	}
	if have.SyncMode != want.SyncMode {
		return fmt.Errorf("its syncmode is %s and cannot be changed to %s; delete the cluster first", have.SyncMode, want.SyncMode)
	}
	return c.nodes(p, want, have, brokers)
}

// nodes adds the steps in which nodes leave and join, those of a cluster one after the other.
func (c *comparison) nodes(p project, want Cluster, have broker.Cluster, brokers map[string]managed) error {
	old := map[string]broker.ClusterNode{}
	for _, n := range have.Nodes {
		old[n.BrokerID] = n
	}
	var leaving, joining []map[string]any
	var left, joined []string
	for _, n := range want.Nodes {
		id := brokers[n.Broker].ID
		node, exists := old[id]
		delete(old, id)
		if exists && (node.NodeID != n.NodeID || node.Address != n.Address || node.Port != n.Port) {
			return fmt.Errorf("node %s is number %d at %s, port %d, which cannot be changed; take it out of the file, apply that, and add it again", n.Broker, node.NodeID, node.Address, node.Port)
		}
		if !exists {
			joining, joined = append(joining, n.body(brokers)), append(joined, "node "+n.Broker+" joins")
		}
	}
	for _, id := range sorted(old) {
		leaving, left = append(leaving, map[string]any{"broker_id": id, "nodeid": old[id].NodeID}), append(left, "node "+old[id].Name+" leaves")
	}
	path := p.path("/clusters/" + url.PathEscape(have.ID))
	c.nodeStep(p, want, leaveClusters, left, path+"/leave", leaving)
	c.nodeStep(p, want, joinClusters, joined, path+"/join", joining)
	return nil
}

func (c *comparison) nodeStep(p project, want Cluster, at phase, changes []string, path string, bodies []map[string]any) {
	if len(bodies) == 0 {
		return
	}
	c.add(Step{Action: Update, Project: p.Name, Kind: "cluster", Name: want.ClusterName, Changes: changes, phase: at, do: func(ctx context.Context) error {
		for _, body := range bodies {
			if err := c.api.Call(ctx, "PUT", path, nil, body, nil); err != nil {
				return err
			}
		}
		return nil
	}})
}

// body is the node as an operation reads it.
func (n Node) body(brokers map[string]managed) map[string]any {
	b, name := brokers[n.Broker], n.Name
	if name == "" {
		name = n.Broker
	}
	return map[string]any{"broker_id": b.ID, "url": b.URL, "nodeid": n.NodeID, "name": name, "address": n.Address, "port": n.Port}
}

// clusters returns the clusters of a project. One with a node that is no connection of the
// project cannot be declared.
func (x *export) clusters(ctx context.Context, p project, brokers map[string]managed) []Cluster {
	r, list := reader{api: x.api}, []broker.Cluster{}
	if r.get(ctx, p.path("/clusters"), nil, &list); r.err != nil {
		x.warn("clusters", fmt.Errorf("project %s: %w", p.Name, r.err))
		return nil
	}
	byID := map[string]string{}
	for name, b := range brokers {
		byID[b.ID] = name
	}
	out := []Cluster{}
	for _, c := range list {
		declared := Cluster{ClusterName: c.ClusterName, SyncMode: c.SyncMode}
		for _, n := range c.Nodes {
			if name, known := byID[n.BrokerID]; known {
				declared.Nodes = append(declared.Nodes, Node{Broker: name, NodeID: n.NodeID, Name: n.Name, Address: n.Address, Port: n.Port})
			}
		}
		if len(declared.Nodes) < len(c.Nodes) {
			x.warn("cluster "+c.ClusterName, fmt.Errorf("project %s: a node is not a broker connection of the project", p.Name))
			return nil
		}
		out = append(out, declared)
	}
	slices.SortFunc(out, func(a, b Cluster) int { return strings.Compare(a.ClusterName, b.ClusterName) })
	return out
}
