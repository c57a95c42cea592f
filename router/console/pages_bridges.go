package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// bridgePages manage the bridges of a broker.
func bridgePages() []*page {
	const base = brokerPath + "bridges"
	return []*page{
		{path: base, name: "bridges", template: "list", role: viewer, help: "bridges", calls: []string{"listBridges", "getBridgeStatus"}, view: viewBridges, fragments: []string{"list"}},
		{path: base + "/{bridgeId}", name: "bridge", group: "bridges", role: viewer, help: "bridges", calls: []string{"getBridgeStatus"}, view: viewBridge, fragments: []string{"connections"}},
		{path: base + "/{bridgeId}/config", name: "bridge-config", group: "bridges", role: editor, help: "bridges", calls: []string{"getBridgeConfig", "getBridgeSchema", "setBridgeConfig", "testBridge", "previewBridge"},
			view: viewBridgeConfig, actions: map[string]action{"edit": editBridgeConfig}},
		{path: base + "/{bridgeId}/letters", name: "dead-letters", group: "bridges", role: viewer, change: editor, help: "bridges", calls: []string{"listDeadLetters", "retryDeadLetters", "deleteDeadLetters"},
			view: viewDeadLetters, actions: map[string]action{"retry": retrySelectedLetters, "retry-all": retryAllLetters, "ask-delete": askLetters, "delete": deleteSelectedLetters}, fragments: []string{"letters"}},
		{path: base + "/{bridgeId}/letters/delete", name: "dead-letters-delete", template: "form", group: "bridges", role: editor, help: "bridges", calls: []string{"listDeadLetters", "deleteDeadLetters"},
			view: viewDeadLettersDelete, actions: map[string]action{"": deleteAllLetters}},
	}
}

func viewBridges(q *request) (view, error) {
	v := &listView{Intro: q.t("bridges.empty"), Head: []string{q.t("col.bridge"), q.t("bridges.connections"), q.t("col.state")}}
	var list []struct {
		ID     string `json:"id"`
		Active bool   `json:"isActive"`
	}
	if err := q.get("listBridges", nil, &list); err != nil {
		v.Err = q.asAPIError(err)
		return v, nil
	}
	var g parts
	states := make([]part[[]bridgeConnection], len(list))
	for i, b := range list {
		if b.Active {
			loadWith(&g, q, &states[i], "getBridgeStatus", q.withParam("bridgeId", b.ID), nil)
		}
	}
	g.wait()
	for i, b := range list {
		state, connections := cell{Text: q.t("bridges.unused")}, cell{}
		if b.Active {
			state, connections = cell{Text: q.t("bridges.configured")}, q.connectionsOf(states[i])
		}
		r := row{Cells: []cell{{Text: b.ID, To: q.inBroker("bridges/" + url.PathEscape(b.ID))}, connections, state}}
		if q.role() >= editor {
			r.Actions = []link{{Text: q.t("bridges.configure"), To: q.inBroker("bridges/" + url.PathEscape(b.ID) + "/config")}}
		}
		v.Rows = append(v.Rows, r)
	}
	return v, nil
}

// connectionsOf returns how many connections of a bridge are connected. One that is disabled,
// or has only begun, is not a failure. Dead letters are a warning.
func (q *request) connectionsOf(p part[[]bridgeConnection]) cell {
	if p.Err != nil {
		return cell{Text: p.Err.Message, State: "warn"}
	}
	connected, failed, letters := 0, 0, 0
	for _, c := range p.Value {
		letters += c.DeadLetters()
		switch {
		case c.Connected:
			connected++
		case c.Error != "":
			failed++
		}
	}
	c := cell{Text: q.t("bridges.connected", connected, len(p.Value))}
	if letters > 0 {
		c.Quiet = q.t("bridges.undelivered", letters)
	}
	switch {
	case failed > 0:
		c.State = "bad"
	case letters > 0:
		c.State = "warn"
	case connected == len(p.Value):
		c.State = "good"
	}
	return c
}

// bridgeView is the state of a bridge's connections.
type bridgeView struct {
	frame
	ID          string
	Connections []bridgeConnection
	Err         *apiError
}

// bridgeConnection is the state of a connection as the API returns it.
type bridgeConnection struct {
	Name      string `json:"connectionName"`
	Queued    int64  `json:"queuedMessages"`
	Connected bool   `json:"isConnected"`
	Error     string `json:"error"`
	Stats     *struct {
		QueuedBytes int64 `json:"queuedBytes"`
		Received    int64 `json:"received"`
		Delivered   int64 `json:"delivered"`
		Dropped     int64 `json:"dropped"`
		Rejected    int64 `json:"rejected"`
		Retries     int64 `json:"retries"`
		Inbound     int64 `json:"inbound"`
		DeadLetters int64 `json:"deadLetters"`
	} `json:"stats"`
}

// DeadLetters returns how many dead letters the connection has, as far as it reports them.
func (c bridgeConnection) DeadLetters() int {
	if c.Stats == nil {
		return 0
	}
	return int(c.Stats.DeadLetters)
}

func viewBridge(q *request) (view, error) {
	v := &bridgeView{ID: q.params["bridgeId"]}
	v.Title = v.ID
	if err := q.get("getBridgeStatus", nil, &v.Connections); err != nil {
		if e := q.asAPIError(err); e.Status != 404 {
			v.Err = e
			return v, nil
		}
		return nil, err
	}
	return v, nil
}

// deadLettersView are the dead letters of a connection.
type deadLettersView struct {
	frame
	Connection string
	Letters    []deadLetter
	Selected   selection
	Paging     paging
	Back       link
	DeleteAll  string    // path of the page that deletes all of them
	Ask        *formView // asks whether the selected ones are deleted, nil if none was selected
}

// deadLetter is a dead letter as the API returns it.
type deadLetter struct {
	ID         string `json:"id"`
	Topic      string `json:"topic"`
	Payload    string `json:"payload"`
	Encoding   string `json:"encoding"`
	Truncated  bool   `json:"truncated"`
	Size       int64  `json:"size"`
	Mapping    string `json:"mapping"`
	RejectedAt string `json:"rejectedAt"`
	Attempts   int    `json:"attempts"`
	Reason     string `json:"reason"`
	Answer     string `json:"answer"`
}

// withConnection returns the parameters of an operation on a connection of the bridge.
func (q *request) withConnection() map[string]string {
	return q.withParam("connectionName", q.query.Get("connection"))
}

// withParam returns the parameters of the page's path and a further one.
func (q *request) withParam(name, value string) map[string]string {
	params := maps.Clone(q.params)
	params[name] = value
	return params
}

func viewDeadLetters(q *request) (view, error) {
	v := &deadLettersView{Connection: q.query.Get("connection"), Back: link{Text: q.t("back.bridge"), To: q.inBroker("bridges/" + url.PathEscape(q.params["bridgeId"]))}}
	v.Title, v.DeleteAll = q.t("letters.of", show(v.Connection)), q.ofLetters("/delete")
	list, err := q.deadLetters(q.listQuery())
	if err != nil {
		return nil, err
	}
	v.Letters, v.Selected, v.Paging = list.Value, q.selection("id", "letters"), q.pagingOf("listDeadLetters", list.Total)
	if q.shown != "" {
		v.Ask = q.lettersForm(v.Letters)
	}
	return v, nil
}

// deadLetters returns dead letters of the connection that the query names.
func (q *request) deadLetters(query url.Values) (part[[]deadLetter], error) {
	var list part[[]deadLetter]
	var g parts
	loadWith(&g, q, &list, "listDeadLetters", q.withConnection(), query)
	if g.wait(); list.Err != nil {
		return list, list.Err
	}
	return list, nil
}

// ofLetters returns the path of the page of the connection's dead letters, or of one
// below it.
func (q *request) ofLetters(below string) string {
	return q.inBroker("bridges/"+url.PathEscape(q.params["bridgeId"])+"/letters"+below, "connection", q.query.Get("connection"))
}

// selectedLetters returns the posted ids, of which there must be one: an operation without
// ids is about all dead letters.
func (q *request) selectedLetters() ([]string, error) {
	ids := q.http.PostForm["id"]
	if len(ids) == 0 {
		return nil, &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: q.t("letters.none_selected")}
	}
	return ids, nil
}

// askLetters shows how many of the dead letters were selected, and asks for their deletion.
func askLetters(q *request) (string, error) {
	if _, err := q.selectedLetters(); err != nil {
		return "", err
	}
	q.shown = "delete"
	return "", errShow
}

// lettersForm deletes the posted dead letters, and names the topics of those that are shown.
func (q *request) lettersForm(shown []deadLetter) *formView {
	ids := q.http.PostForm["id"]
	v := q.lettersDeletion("delete", len(ids))
	for _, id := range ids {
		v.Form.Fields = append(v.Form.Fields, field{Name: "id", Kind: kindHidden, Value: id})
	}
	letters := map[string]int{} // by topic
	for _, l := range shown {
		if slices.Contains(ids, l.ID) {
			letters[l.Topic]++
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(letters)) {
		text := topic
		if n := letters[topic]; n > 1 {
			text += " × " + q.lang.number(n)
		}
		v.Facts = append(v.Facts, of(q.t("col.topic"), text))
	}
	return v
}

// lettersDeletion asks whether a number of dead letters of the connection is deleted.
func (q *request) lettersDeletion(do string, n int) *formView {
	return &formView{Intro: []string{q.t("letters.delete.what", n, show(q.query.Get("connection")))},
		Form: form{Do: do, Submit: q.t("letters.delete.submit", n), Danger: true, Cancel: q.root + "/" + q.ofLetters("")}}
}

func retrySelectedLetters(q *request) (string, error) {
	ids, err := q.selectedLetters()
	if err != nil {
		return "", err
	}
	return q.retryLetters(map[string]any{"ids": ids})
}

func retryAllLetters(q *request) (string, error) { return q.retryLetters(nil) }

func (q *request) retryLetters(body any) (string, error) {
	_, err := q.perform("retryDeadLetters", q.withConnection(), nil, body, nil)
	return done(q.ofLetters(""), "letters_retried", ""), err
}

func deleteSelectedLetters(q *request) (string, error) {
	ids, err := q.selectedLetters()
	if err != nil {
		return "", err
	}
	return q.deleteLetters(url.Values{"ids": {strings.Join(ids, ",")}})
}

func (q *request) deleteLetters(query url.Values) (string, error) {
	_, err := q.perform("deleteDeadLetters", q.withConnection(), query, nil, nil)
	return done(q.ofLetters(""), "letters_deleted", ""), err
}

// viewDeadLettersDelete asks whether all dead letters of a connection are to be deleted.
func viewDeadLettersDelete(q *request) (view, error) {
	list, err := q.deadLetters(url.Values{"count": {"1"}})
	if err != nil {
		return nil, err
	}
	return q.lettersDeletion("", list.Total), nil
}

func deleteAllLetters(q *request) (string, error) { return q.deleteLetters(nil) }
