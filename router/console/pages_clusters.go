package console

import (
	"fmt"
	"net/url"
	"strings"
)

// clusterPages manage the clusters of a project.
func clusterPages() []*page {
	const base = "/ui/p/{projectId}/clusters"
	return []*page{
		{path: base, name: "clusters", template: "list", role: viewer, help: "clusters", calls: []string{"listClusters"}, view: viewClusters},
		{path: base + "/new", name: "cluster-new", template: "form", group: "clusters", role: admin, help: "clusters", calls: []string{"createCluster", "listBrokers"},
			view: viewClusterNew, actions: map[string]action{"": createCluster}},
		{path: base + "/delete", name: "clusters-delete", template: "form", group: "clusters", role: admin, help: "clusters", calls: []string{"deleteClusters", "listClusters"},
			view: viewClustersDelete, actions: map[string]action{"": deleteClusters}},
		{path: base + "/{clusterId}", name: "cluster", group: "clusters", role: viewer, help: "clusters", calls: []string{"getCluster", "getRaftStatus"}, view: viewCluster, fragments: []string{"nodes"}},
		{path: base + "/{clusterId}/join", name: "cluster-join", template: "form", group: "clusters", role: editor, help: "clusters", calls: []string{"joinCluster", "listBrokers"},
			view: viewJoin, actions: map[string]action{"": joinCluster}},
		{path: base + "/{clusterId}/leave", name: "cluster-leave", template: "form", group: "clusters", role: editor, help: "clusters", calls: []string{"leaveCluster", "getCluster"},
			view: viewLeave, actions: map[string]action{"": leaveCluster}},
		{path: base + "/{clusterId}/leader", name: "cluster-leader", template: "form", group: "clusters", role: editor, help: "clusters", calls: []string{"setClusterLeader", "getCluster"},
			view: viewLeader, actions: map[string]action{"": setLeader}},
		{path: base + "/{clusterId}/delete", name: "cluster-delete", template: "form", group: "clusters", role: admin, help: "clusters", calls: []string{"deleteCluster", "getCluster"},
			view: viewClusterDelete, actions: map[string]action{"": deleteCluster}},
	}
}

// clusterRecord is a cluster as the API returns it.
type clusterRecord struct {
	ID    string        `json:"id"`
	Name  string        `json:"clustername"`
	Mode  string        `json:"syncmode"`
	State string        `json:"state"`
	Nodes []clusterNode `json:"nodes"`
	Warn  string        `json:"warning"` // of the leader, "" for none
}

// clusterNode is a node of a cluster.
type clusterNode struct {
	BrokerID string `json:"broker_id"`
	NodeID   int    `json:"nodeid"`
	Name     string `json:"name"`
	Address  string `json:"address"`
	Port     int    `json:"port"`
	URL      string `json:"url"`
	Leader   bool   `json:"leader"`
	LogIndex int64  `json:"log_index"`
	Drained  bool   `json:"drained"`
	Sessions int    `json:"sessions_left"` // of a drained node
	Backlog  []struct {
		NodeID   int   `json:"nodeid"`
		Away     bool  `json:"away"`
		Messages int   `json:"messages"`
		Bytes    int64 `json:"bytes"`
		MaxBytes int64 `json:"max_bytes"`
	} `json:"backlog"` // what it stores for other nodes
	Error string `json:"error"`
}

// Behind returns how many log entries the node lacks of those that another has.
func (c clusterRecord) Behind(n clusterNode) int64 {
	last := n.LogIndex
	for _, other := range c.Nodes {
		last = max(last, other.LogIndex)
	}
	return last - n.LogIndex
}

// Leader returns the name of the leader, "" if there is none.
func (c clusterRecord) Leader() string {
	for _, n := range c.Nodes {
		if n.Leader {
			return n.label()
		}
	}
	return ""
}

// label returns the name of the node, or its number.
func (n clusterNode) label() string {
	if n.Name != "" {
		return n.Name
	}
	return fmt.Sprint(n.NodeID)
}

// MayLose returns how many further nodes the cluster can lose and still change something.
func (c clusterRecord) MayLose() int {
	healthy := 0
	for _, n := range c.Nodes {
		if n.Error == "" {
			healthy++
		}
	}
	return max(0, healthy-len(c.Nodes)/2-1)
}

// clusterState returns the state of a cluster, with a warning if no node may be lost.
func (q *request) clusterState(c clusterRecord) cell {
	state := cell{Text: q.t("clusters.state." + c.State), State: map[string]string{"active": "good", "degraded": "warn", "inactive": "bad"}[c.State], Quiet: q.sentences(c.Warn)}
	if c.State == "active" && c.MayLose() == 0 {
		state.Warn = q.t("clusters.may_lose.none")
	}
	return state
}

// clusterMode returns what the nodes of a cluster share, in the words of the form that makes one.
func (q *request) clusterMode(mode string) string {
	return q.known("clusters.mode."+mode+".what", mode)
}

func viewClusters(q *request) (view, error) {
	v := &listView{Intro: q.t("clusters.empty"), Head: []string{q.t("col.name"), q.t("col.state"), q.t("col.mode"), q.t("col.nodes"), q.t("col.leader")}}
	var list []clusterRecord
	total, err := q.list("listClusters", nil, &list)
	if err != nil {
		v.Err = q.asAPIError(err)
		return v, nil
	}
	v.Paging = paging{Total: total}
	if q.role() >= admin {
		v.Add = link{Text: q.t("clusters.add"), To: q.inProject("clusters/new")}
		if total > 0 {
			v.More = []link{{Text: q.t("clusters.delete_all"), To: q.inProject("clusters/delete"), Dialog: true}}
		}
	}
	for _, c := range list {
		v.Rows = append(v.Rows, row{Cells: []cell{{Text: c.Name, To: q.inProject("clusters/" + c.ID)}, q.clusterState(c), {Text: q.clusterMode(c.Mode)}, {Text: q.lang.number(len(c.Nodes)), Number: true}, {Text: c.Leader()}}})
	}
	return v, nil
}

// clusterView is one cluster.
type clusterView struct {
	frame
	Cluster clusterRecord
	State   cell
	Facts   []fact
	Raft    *raftRecord // nil if no node reported it
	RaftErr *apiError
}

// raftRecord is the Raft status of a cluster.
type raftRecord struct {
	Nodes []struct {
		ID   int `json:"id"`
		Role int `json:"role"`
	} `json:"nodes"`
	CommitIndex int64  `json:"commit_index"`
	LastApplied int64  `json:"last_applied"`
	Term        int64  `json:"current_term"`
	Error       string `json:"errmsg"`
}

func viewCluster(q *request) (view, error) {
	var (
		g       parts
		cluster part[clusterRecord]
		raft    part[[]raftOutcome]
	)
	load(&g, q, &cluster, "getCluster", nil)
	load(&g, q, &raft, "getRaftStatus", nil)
	g.wait()
	if cluster.Err != nil {
		return nil, cluster.Err
	}
	v := &clusterView{Cluster: cluster.Value, State: q.clusterState(cluster.Value), RaftErr: raft.Err}
	v.Title = q.t("cluster.of", v.Cluster.Name)
	for _, r := range raft.Value {
		if r.ID == v.Cluster.ID {
			v.Raft = r.Data
			if r.Error != nil {
				v.RaftErr = q.localized(r.Error)
			}
		}
	}
	v.Facts = []fact{{q.t("col.state"), v.State}, {q.t("col.mode"), cell{Text: q.clusterMode(v.Cluster.Mode)}}, {q.t("col.leader"), cell{Text: v.Cluster.Leader()}},
		{q.t("clusters.may_lose"), cell{Text: q.t("clusters.may_lose.nodes", v.Cluster.MayLose())}}}
	if v.Raft != nil {
		v.Facts = append(v.Facts, fact{q.t("clusters.term"), cell{Text: q.lang.number(v.Raft.Term)}}, fact{q.t("clusters.commit"), cell{Text: q.lang.number(v.Raft.CommitIndex)}},
			fact{q.t("clusters.applied"), cell{Text: q.lang.number(v.Raft.LastApplied)}})
	}
	return v, nil
}

// raftOutcome is the Raft status of one cluster of the project, or why there is none.
type raftOutcome struct {
	ID    string      `json:"clusterId"`
	Data  *raftRecord `json:"data"`
	Error *apiError   `json:"error"`
}

// maxNodes is the largest number of nodes of a cluster.
const maxNodes = 7

// brokerOptions are the broker connections of the project, with an empty choice first.
func (q *request) brokerOptions() ([]option, map[string]brokerRecord) {
	var list []brokerRecord
	options, byID := []option{{"", q.t("clusters.no_broker")}}, map[string]brokerRecord{}
	if q.get("listBrokers", nil, &list) == nil {
		for _, b := range list {
			options = append(options, option{b.ID, show(b.Name)})
			byID[b.ID] = b
		}
	}
	return options, byID
}

// mustChoose returns the broker connections of which one must be chosen.
func (q *request) mustChoose(options []option) []option {
	return append([]option{{"", q.t("clusters.choose_broker")}}, options[1:]...)
}

func (q *request) clusterForm(options []option) form {
	fields := []field{{Name: "clustername", Kind: kindText, Required: true},
		{Name: "syncmode", Kind: kindRadio, Required: true, Value: "full", Options: []option{{"full", q.t("clusters.mode.full.what")}, {"dynsec", q.t("clusters.mode.dynsec.what")}, {"hp", q.t("clusters.mode.hp.what")}}}}
	for i := range min(maxNodes, max(3, len(options)-1)) {
		at, first, choices := fmt.Sprintf("nodes/%d/", i), i == 0, options // a cluster has at least one node
		if first {
			choices = q.mustChoose(options)
		}
		fields = append(fields,
			field{Name: at + "broker_id", Kind: kindSelect, Required: first, Options: choices, Label: q.t("clusters.node.broker", i+1)},
			field{Name: at + "address", Kind: kindText, Required: first, Label: q.t("clusters.node.address", i+1), Hint: q.t("hint.address")},
			field{Name: at + "port", Kind: kindNumber, Required: first, Min: "1", Max: "65535", Label: q.t("clusters.node.port", i+1)})
	}
	return q.newForm("", "clusters.add", fields...)
}

func viewClusterNew(q *request) (view, error) {
	options, _ := q.brokerOptions()
	return &formView{Warnings: []string{q.t("clusters.new.what")}, Form: q.clusterForm(options), Back: q.backInProject("clusters")}, nil
}

func createCluster(q *request) (string, error) {
	options, brokers := q.brokerOptions()
	body := q.clusterForm(options).body(q.http.PostForm)
	rows, _ := body["nodes"].([]any)
	nodes := []any{}
	for i, r := range rows {
		node, _ := r.(map[string]any)
		id, _ := node["broker_id"].(string)
		if id == "" {
			continue
		}
		node["url"], node["name"], node["nodeid"] = brokers[id].URL, brokers[id].Name, i+1
		nodes = append(nodes, node)
	}
	body["nodes"] = nodes
	return done(q.inProject("clusters"), "cluster_created", q.posted("clustername")), q.do("createCluster", nil, body)
}

func (q *request) joinForm() form {
	options, _ := q.brokerOptions()
	return q.newForm("", "clusters.join",
		field{Name: "broker_id", Kind: kindSelect, Required: true, Options: q.mustChoose(options), Label: q.t("field.broker")},
		field{Name: "nodeid", Kind: kindNumber, Required: true, Min: "1"},
		field{Name: "name", Kind: kindText},
		field{Name: "address", Kind: kindText, Required: true},
		field{Name: "port", Kind: kindNumber, Required: true, Min: "1", Max: "65535", Label: q.t("field.cluster_port")})
}

func viewJoin(q *request) (view, error) {
	return &formView{Warnings: []string{q.t("clusters.join.what")}, Form: q.joinForm(), Back: q.backInProject("clusters")}, nil
}

func joinCluster(q *request) (string, error) {
	return done(q.inProject("clusters/"+q.params["clusterId"]), "node_joined", q.posted("name")), q.do("joinCluster", nil, q.joinForm().body(q.http.PostForm))
}

// node returns the cluster of the page, and the node that its query names.
func (q *request) node() (clusterRecord, clusterNode, error) {
	var c clusterRecord
	if err := q.get("getCluster", nil, &c); err != nil {
		return c, clusterNode{}, err
	}
	for _, n := range c.Nodes {
		if fmt.Sprint(n.NodeID) == q.query.Get("node") {
			return c, n, nil
		}
	}
	return c, clusterNode{}, &apiError{Status: 404, Code: "NOT_FOUND", Message: q.t("clusters.no_node")}
}

func (q *request) toCluster() string {
	return q.root + "/" + q.inProject("clusters/"+q.params["clusterId"])
}

func viewLeave(q *request) (view, error) {
	c, n, err := q.node()
	v := &formView{Intro: []string{q.t("clusters.leave.what", show(n.label()), show(c.Name))}, Form: q.confirmForm("clusters.leave", "", q.toCluster())}
	rest := len(c.Nodes) - 1
	if rest > 0 {
		v.Intro = append(v.Intro, q.t("clusters.leave.rest", rest))
	}
	switch {
	case n.Leader && rest == 1:
		v.Intro = append(v.Intro, q.t("clusters.leave.last"))
	case n.Leader:
		v.Intro = append(v.Intro, q.t("clusters.leave.leader"))
	}
	switch rest {
	case 1:
		v.Warnings = []string{q.t("clusters.leave.single")}
	case 2:
		v.Warnings = []string{q.t("clusters.leave.no_loss")}
	}
	return v, err
}

func leaveCluster(q *request) (string, error) {
	_, n, err := q.node()
	if err != nil {
		return "", err
	}
	return done(q.inProject("clusters/"+q.params["clusterId"]), "node_left", n.label()), q.do("leaveCluster", nil, map[string]any{"nodeid": n.NodeID, "broker_id": n.BrokerID})
}

// purgeField deletes the record although the cluster cannot be dissolved.
func (q *request) purgeField() field {
	return field{Name: "purge", Kind: kindCheckbox, Label: q.t("clusters.purge"), Hint: q.t("clusters.purge.what")}
}

// purgeQuery returns the query with the posted purge.
func (q *request) purgeQuery() url.Values {
	query := url.Values{}
	if q.posted("purge") == "true" {
		query.Set("purge", "true")
	}
	return query
}

func viewClusterDelete(q *request) (view, error) {
	var c clusterRecord
	if err := q.get("getCluster", nil, &c); err != nil {
		return nil, err
	}
	v := &formView{Intro: []string{q.t("clusters.delete.what", show(c.Name)), q.t("clusters.delete.nodes", len(c.Nodes))}, Form: q.confirmForm("clusters.delete", c.Name, q.toCluster())}
	v.Form.Fields = q.newForm("", "clusters.delete", q.purgeField()).Fields
	return v, nil
}

func deleteCluster(q *request) (string, error) {
	var c clusterRecord
	if err := q.get("getCluster", nil, &c); err != nil {
		return "", err
	}
	if err := q.confirmed(c.Name); err != nil {
		return "", err
	}
	query := q.purgeQuery()
	query.Set("clustername", c.Name)
	return done(q.inProject("clusters"), "cluster_deleted", c.Name), q.do("deleteCluster", query, nil)
}

func viewClustersDelete(q *request) (view, error) {
	var list []clusterRecord
	if err := q.get("listClusters", nil, &list); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list))
	for _, c := range list {
		names = append(names, show(c.Name))
	}
	word := q.t("form.all")
	v := &formView{Intro: []string{q.t("clusters.delete_all.what", len(list)), strings.Join(names, ", ")}, Form: q.confirmForm("clusters.delete_all", word, q.root+"/"+q.inProject("clusters"))}
	v.Form.Fields = q.newForm("", "clusters.delete_all", q.purgeField()).Fields
	return v, nil
}

// deleteClusters deletes all clusters of the project. The response has the outcome of
// each: the failures are shown together.
func deleteClusters(q *request) (string, error) {
	if err := q.confirmed(q.t("form.all")); err != nil {
		return "", err
	}
	var outcomes []struct {
		Name  string    `json:"clustername"`
		Error *apiError `json:"error"`
	}
	if _, err := q.perform("deleteClusters", q.params, q.purgeQuery(), nil, &outcomes); err != nil {
		return "", err
	}
	failed := &apiError{Status: 503, Code: "BROKER_UNAVAILABLE"}
	for _, o := range outcomes {
		if o.Error != nil {
			failed.Message += o.Name + ": " + q.localized(o.Error).Message + ". "
		}
	}
	if failed.Message != "" {
		return "", failed
	}
	return done(q.inProject("clusters"), "clusters_deleted", fmt.Sprint(len(outcomes))), nil
}
