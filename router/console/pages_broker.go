package console

import "strings"

// brokerPath is the path below which the pages of a broker are.
const brokerPath = Path + "/p/{projectId}/b/{brokerId}/"

// brokerPages are those about a broker itself.
func brokerPages() []*page {
	return []*page{
		{path: brokerPath + "overview", name: "overview", role: viewer, help: "brokers",
			calls: []string{"getBroker", "getBrokerInfo", "getMetricHistory", "listDenials", "listListeners", "topClients", "listBackups", "getDisk"}, view: viewOverview, fragments: []string{"cause", "figures", "charts", "state-card"}},
		{path: brokerPath + "listeners", name: "listeners", role: viewer, help: "embedded-broker",
			calls: []string{"listListeners"}, view: viewListeners},
		{path: brokerPath + "listeners/{listenerId}/certificate", name: "listener-certificate", group: "listeners", role: viewer, help: "embedded-broker",
			calls: []string{"getListenerCertificate"}, view: viewListenerCertificate},
		{path: brokerPath + "connection", name: "connection", role: viewer, help: "brokers",
			calls: []string{"getBroker", "getBrokerInfo", "getLicense"}, view: viewConnection, fragments: []string{"values"}},
		{path: brokerPath + "connection/edit", name: "connection-edit", group: "connection", role: editor, help: "brokers",
			calls: []string{"getBroker", "updateBroker", "testBroker"}, view: viewConnectionEdit, fragments: []string{"trial", "fingerprint"},
			actions: map[string]action{"save": saveConnection, "test": testConnection, "pin": pinConnection}},
		{path: brokerPath + "connection/delete", name: "connection-delete", template: "form", group: "connection", role: admin, help: "brokers",
			calls: []string{"getBroker", "deleteBroker", "listStreams", "listBridges"}, view: viewConnectionDelete,
			actions: map[string]action{"delete": deleteConnection}},
	}
}

// linkInBroker returns the link from the page to another one of the same broker.
func (q *request) linkInBroker(page string, pairs ...string) string {
	return q.root + "/" + q.inBroker(page, pairs...)
}

// brokerAPI returns the link to an operation about the broker, for a script.
func (q *request) brokerAPI(path string) string {
	return q.root + "/../api/projects/" + q.params["projectId"] + "/brokers/" + q.params["brokerId"] + "/" + path
}

// labelled returns the fields with the texts of a group of pages: the label
// "GROUP.field.NAME", and the hint "GROUP.hint.NAME" if there is one.
func (q *request) labelled(group string, fields ...field) []field {
	for i := range fields {
		f := &fields[i]
		name := strings.ToLower(f.Name)
		if f.Kind != kindHidden {
			f.Label = q.t(group + ".field." + name)
		}
		if hint := group + ".hint." + name; q.lang.has(hint) {
			f.Hint = q.t(hint)
		}
	}
	return fields
}

// of returns a fact with a value that users chose.
func of(name, value string) fact { return fact{Name: name, Cell: cell{Text: value, Code: true}} }

// plainly returns a name and a value that is no identifier.
func plainly(name, value string) fact { return fact{Name: name, Cell: cell{Text: value}} }

// actionForm returns the form of a page that is left by a link back.
func (q *request) actionForm(do, submit, back string, fields ...field) form {
	f := q.newForm(do, submit, fields...)
	f.Cancel = back
	return f
}

// deletion is actionForm for a form that takes something away.
func (q *request) deletion(do, submit, back string, fields ...field) form {
	f := q.actionForm(do, submit, back, fields...)
	f.Danger = true
	return f
}

// brokerRecord is the record of a broker connection.
type brokerRecord struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Name         string  `json:"name"`
	URL          string  `json:"url"`
	Description  string  `json:"description"`
	Username     *string `json:"username"`
	Verify       bool    `json:"verify_ca_cert"`
	Metrics      bool    `json:"metricsEnabled"`
	TopicTree    bool    `json:"topictree"`
	HA           bool    `json:"ha"`
	ClusterMode  *string `json:"clustermode"`
	CACert       *string `json:"ca_cert"`
	Fingerprint  *string `json:"server_fingerprint"`
	ClientCert   *string `json:"client_cert"`
	HasPassword  bool    `json:"hasPassword"`
	HasClientKey bool    `json:"hasClientKey"`
	CreatedAt    string  `json:"created_at"`
	UpdatedAt    string  `json:"updated_at"`
	Status       struct {
		Connected bool             `json:"connected"`
		Since     int64            `json:"since"`
		Error     string           `json:"error"`
		Version   string           `json:"version"`
		Missing   []missingFeature `json:"missing"`
	} `json:"status"`
	Capabilities []string `json:"capabilities"`
}

// missingFeature is what a broker does not have, and what would change that.
type missingFeature struct {
	Feature string `json:"feature"`
	Reason  string `json:"reason"`
	Remedy  string `json:"remedy"`
}

// Embedded reports whether the broker is the one in the service itself.
func (b *brokerRecord) Embedded() bool { return b.Type == "on-premise-setup" }

// Encrypted reports whether the connection uses TLS.
func (b *brokerRecord) Encrypted() bool {
	scheme, _, _ := strings.Cut(b.URL, ":")
	return scheme == "mqtts" || scheme == "ssl" || scheme == "wss"
}

// denialRecord is an entry of listDenials.
type denialRecord struct {
	At       string `json:"at"`
	ClientID string `json:"clientid"`
	Username string `json:"username"`
	Address  string `json:"address"`
	Action   string `json:"action"`
	Topic    string `json:"topic"`
	Reason   string `json:"reason"`
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
