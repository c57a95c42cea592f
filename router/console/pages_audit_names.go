package console

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// shownEvent is a row of the audit log with its texts.
type shownEvent struct {
	auditEvent
	What  string // the operation, "" if this version of the console has no text for it
	Named string // the name of an object of which the log has the id only
}

// operationTexts are the keys of texts that an operation shares with another one or with a page.
// Commands that exist only over MQTT have their own names for what the API does.
var operationTexts = map[string]string{
	"setTtl": "operation.setTTL", "updateConfig": "operation.setBridgeConfig", "disableClient": "operation.enableClient",
	"enableStream": "operation.modifyStream", "disableStream": "operation.modifyStream",
	"addNode": "operation.joinCluster", "removeNode": "operation.leaveCluster", "setLeader": "operation.setClusterLeader",
	"drainNode": "operation.drainClusterNode", "undrainNode": "operation.undrainClusterNode", "undoJoin": "operation.leaveCluster",
	"addFilter": "operation.setLimits", "removeFilter": "operation.setLimits", "clearFilters": "operation.setLimits",
	"createBackup": "title.backup-new", "verifyBackup": "title.backup-verify", "deleteBackup": "title.backup-delete",
}

// auditNames are the names of objects by their ids.
type auditNames struct {
	users, brokers map[string]string
}

// maxNamed bounds the projects whose brokers a page of the log names.
const maxNamed = 10

// loadNames loads the names of what the events are about: of users and of brokers. What cannot be
// loaded, or was deleted, is shown by its id.
func (q *request) loadNames(events []auditEvent) auditNames {
	names := auditNames{map[string]string{}, map[string]string{}}
	var projects []string
	for _, e := range events {
		if e.ProjectID != "" && !slices.Contains(projects, e.ProjectID) && len(projects) < maxNamed {
			projects = append(projects, e.ProjectID)
		}
	}
	var g parts
	members, brokers := make([]part[[]memberRecord], len(projects)), make([]part[[]brokerRecord], len(projects))
	for i, id := range projects {
		params := map[string]string{"projectId": id}
		loadWith(&g, q, &members[i], "listMembers", params, nil)
		loadWith(&g, q, &brokers[i], "listBrokers", params, nil)
	}
	g.wait()
	for i := range projects {
		for _, m := range members[i].Value {
			names.users[m.UserID] = m.Name
		}
		for _, b := range brokers[i].Value {
			names.brokers[b.ID] = b.Name
		}
	}
	return names
}

// shownEvents returns the events with their texts.
func (q *request) shownEvents(events []auditEvent) []shownEvent {
	names := q.loadNames(events)
	shown := make([]shownEvent, len(events))
	for i, e := range events {
		shown[i] = shownEvent{auditEvent: e, Named: q.objectName(e, names)}
		if key := cmp.Or(operationTexts[e.Operation], "operation."+e.Operation); q.lang.has(key) {
			shown[i].What = q.t(key)
		}
	}
	return shown
}

// objectName returns the name of what an event is about, "" if its object is the name. An
// operation on a broker itself, such as the time to live of its topics, has no object.
func (q *request) objectName(e auditEvent, names auditNames) string {
	if e.Operation == "createJob" {
		var change struct{ After struct{ Action string } }
		if json.Unmarshal(e.Change, &change) == nil && change.After.Action != "" {
			return q.known("jobs.action."+change.After.Action, change.After.Action)
		}
	}
	if e.Name != "" && e.Name != e.Object {
		return e.Name
	}
	if e.Object == "" {
		return names.brokers[e.BrokerID]
	}
	if name := names.users[e.Object]; name != "" {
		return name
	}
	return names.brokers[e.Object]
}

// operationOptions are the operations that the log may have, as the filter suggests them.
func (q *request) operationOptions() []option {
	var all []option
	for key := range q.lang.keys {
		if name, ok := strings.CutPrefix(key, "operation."); ok {
			all = append(all, option{name, q.t(key)})
		}
	}
	for name, key := range operationTexts {
		all = append(all, option{name, q.t(key)})
	}
	slices.SortFunc(all, func(a, b option) int {
		return cmp.Or(strings.Compare(a.Text, b.Text), strings.Compare(a.Value, b.Value))
	})
	return all
}
