package console

import (
	"fmt"
	"maps"
	"strings"
)

// clusterNodePages drain a node of a cluster, and undo that.
func clusterNodePages() []*page {
	return []*page{
		{path: "/ui/p/{projectId}/clusters/{clusterId}/drain", name: "cluster-drain", template: "form", group: "clusters", role: editor, help: "clusters",
			calls: []string{"drainClusterNode", "undrainClusterNode", "getCluster"}, view: viewDrain, actions: map[string]action{"": drainNode, "undrain": undrainNode}},
	}
}

func viewLeader(q *request) (view, error) {
	_, n, err := q.node()
	return &formView{Intro: []string{q.t("clusters.leader.what", show(n.label()))}, Form: q.newForm("", "clusters.leader.make"), Back: q.backInProject("clusters")}, err
}

func setLeader(q *request) (string, error) {
	_, n, err := q.node()
	if err != nil {
		return "", err
	}
	return done(q.inProject("clusters/"+q.params["clusterId"]), "leader_set", n.label()), q.do("setClusterLeader", nil, map[string]any{"nodeid": n.NodeID})
}

func viewDrain(q *request) (view, error) {
	c, n, err := q.node()
	if err != nil {
		return nil, err
	}
	v := &formView{Form: q.newForm("", "clusters.drain"), Back: q.backInProject("clusters")}
	if n.Drained {
		v.Title = q.t("operation.undrainClusterNode")
		v.Intro, v.Form = []string{q.t("clusters.undrain.what", show(n.label()))}, q.newForm("undrain", "clusters.undrain")
		return v, nil
	}
	v.Intro = []string{q.t("clusters.drain."+c.Mode+".what", show(n.label())), q.t("clusters.drain.restart")}
	if n.Leader {
		v.Intro = append(v.Intro, q.t("clusters.leave.leader"))
	}
	return v, nil
}

func drainNode(q *request) (string, error) {
	params, label, err := q.nodeParams()
	if err != nil {
		return "", err
	}
	_, err = q.perform("drainClusterNode", params, nil, nil, nil)
	return done(q.inProject("clusters/"+q.params["clusterId"]), "node_drained", label), err
}

func undrainNode(q *request) (string, error) {
	params, label, err := q.nodeParams()
	if err != nil {
		return "", err
	}
	_, err = q.perform("undrainClusterNode", params, nil, nil, nil)
	return done(q.inProject("clusters/"+q.params["clusterId"]), "node_undrained", label), err
}

// nodeParams returns the parameters of an operation for the node that the query of the page names,
// and the name of the node.
func (q *request) nodeParams() (params map[string]string, label string, err error) {
	_, n, err := q.node()
	params = maps.Clone(q.params)
	params["nodeId"] = fmt.Sprint(n.NodeID)
	return params, n.label(), err
}

// sentences returns sentences of the API that it has joined, in the language of the caller.
func (q *request) sentences(joined string) string {
	all := strings.Split(joined, "; ")
	for i, english := range all {
		all[i], _ = q.lang.sentence(english)
	}
	return strings.Join(all, "; ")
}
