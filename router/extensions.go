package router

import (
	"net/http"
	"slices"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// extensions are the operations that the specification requires without listing them,
// and those of the service itself.
func (rt *router) extensions() []*route {
	h := rt.api
	rows := slices.Concat(
		tagged(tagSession, sessionRoutes(h)),
		tagged(tagProjects, projectExtensions(h)),
		tagged(tagSearch, searchExtensions(h)),
		tagged(tagTokens, tokenExtensions(h)),
		tagged(tagUsers, userExtensions(h)),
		tagged(tagClusters, clusterExtensions(h)),
		tagged(tagBrokers, brokerExtensions(h)),
		tagged(tagBridges, bridgeExtensions(h)),
		tagged(tagInspection, inspectionExtensions(h)),
		tagged(tagTopics, topicExtensions(h)),
		tagged(tagMessages, messageExtensions(h)),
		tagged(tagStreams, streamExtensions(h)),
		tagged(tagAccess, accessExtensions(h)),
		tagged(tagJobs, jobExtensions(h)),
		tagged(tagAudit, rt.auditExtensions(h)),
		tagged(tagBackups, backupExtensions(h)),
		tagged(tagService, slices.Concat(rt.serviceRoutes(), logExtensions(h))),
	)
	for _, row := range rows {
		row.Extension = true
	}
	return rows
}

// projectExtensions manage projects and their members.
func projectExtensions(h *handlers.API) []route {
	return []route{
		{ID: "createProject", Method: "POST", Path: "/api/projects", Role: auth.SignedIn, Status: 200,
			Summary: "Create a project", UsersOnly: true, Creators: true, Do: query(h.CreateProject),
			Description: "The caller becomes its owner and admin. `auth.project_creators` of the configuration limits who may " +
				"create projects."},
		{ID: "getProject", Method: "GET", Path: projectPath, Role: auth.Viewer, Status: 200,
			Summary: "Get a project", Restricted: true, Do: query(h.GetProject),
			Description: "With the role of the caller."},
		{ID: "updateProject", Method: "PUT", Path: projectPath, Role: auth.Admin, Status: 204,
			Summary: "Update a project", Before: "getProject", Do: command(h.UpdateProject),
			Description: "Changes the members that are present; null clears the description."},
		{ID: "deleteProject", Method: "DELETE", Path: projectPath, Role: auth.Admin, Status: 204,
			Summary: "Delete a project", Before: "getProject", Do: command(h.DeleteProject),
			Description: "Deletes the project with its members and tokens. One that has clusters or broker connections is " +
				"refused (400, CONFLICT) unless `purge` is true; one that has the embedded broker is always refused."},
		{ID: "listMembers", Method: "GET", Path: projectPath + "/members", Role: auth.Viewer, Status: 200,
			Summary: "List the project's members", Do: query(h.ListMembers),
			Description: "Users with their roles, the owner included."},
		{ID: "putMember", Method: "PUT", Path: projectPath + "/members/{userId}", Role: auth.Admin, Status: 204,
			Summary: "Add a member or change the member's role", Before: "listMembers", Do: command(h.PutMember),
			Description: "The owner of a project remains its admin (400, CONFLICT)."},
		{ID: "deleteMember", Method: "DELETE", Path: projectPath + "/members/{userId}", Role: auth.Admin, Status: 204,
			Summary: "Remove a member", Before: "listMembers", Do: command(h.DeleteMember),
			Description: "Also ends the tokens of the member in this project. The owner cannot be removed (400, CONFLICT)."},
	}
}

// searchExtensions find objects of all projects.
func searchExtensions(h *handlers.API) []route {
	return []route{
		{ID: "search", Method: "GET", Path: "/api/search", Role: auth.SignedIn, Status: 200, Errors: []int{404, 429, 503},
			Summary: "Search all objects by name", Do: query(h.Search),
			Description: "Projects, broker connections and clusters that the caller may see, users for platform administrators, and " +
				"of each connected broker clients, roles, groups, sessions, streams and topics. A restricted token finds its brokers " +
				"and what they have. A search takes at most 1.5 seconds; brokers that did not respond are in `incomplete`. At most " +
				"4 searches of a caller (429, SEARCH_BUSY) and 16 of all (503) are in progress."},
	}
}

// tokenExtensions manage tokens.
func tokenExtensions(h *handlers.API) []route {
	return []route{
		{ID: "takeToken", Method: "PUT", Path: projectPath + "/tokens/{tokenId}/owner", Role: auth.Admin, Status: 204,
			Summary: "Become the owner of a token", Before: "listTokens", UsersOnly: true, Do: command(h.TakeToken),
			Description: "Also of the tokens that it created. The token then ends with the membership of the caller. A token " +
				"cannot be transferred to another user."},
	}
}

// userExtensions manage users.
func userExtensions(h *handlers.API) []route {
	return []route{
		{ID: "updateUser", Method: "PUT", Path: "/api/users/{userId}", Role: auth.Root, Status: 204,
			Summary: "Update a user", Before: "getUser", Do: command(h.UpdateUser),
			Description: "Changes the members that are present. A new password ends the user's sessions."},
		{ID: "listUserSessions", Method: "GET", Path: "/api/users/{userId}/sessions", Role: auth.Root, Status: 200,
			Summary: "List the sessions of a user", Do: query(h.ListUserSessions),
			Description: "As in listSessions; `current` is true for the caller's own session only."},
		{ID: "endUserSessions", Method: "DELETE", Path: "/api/users/{userId}/sessions", Role: auth.Root, Status: 204,
			Summary: "End the sessions of a user", Do: command(h.EndUserSessions),
			Description: "The user is signed out everywhere, but the caller keeps its own session. API tokens are not affected."},
	}
}

// clusterExtensions exceed the specification of clusters.
func clusterExtensions(h *handlers.API) []route {
	return []route{
		{ID: "setClusterLeader", Method: "PUT", Path: clusterPath + "/leader", Role: auth.Editor, Status: 204, Errors: []int{500, 503},
			Summary: "Transfer the leadership of a cluster", Do: command(h.SetClusterLeader),
			Description: "Makes another node, which must be a voter, the leader."},
		{ID: "drainClusterNode", Method: "PUT", Path: clusterPath + "/nodes/{nodeId}/drain", Role: auth.Editor, Status: 204, Errors: []int{405, 500, 503},
			Summary: "Drain a node of a cluster", Do: command(h.DrainClusterNode),
			Description: "The node goes on running, and until undrainClusterNode or its restart it refuses clients, which are to use " +
				"another node (0x9C of MQTT 5, with the `cluster.client_address` of the others), and gives up the leadership. In syncmode " +
				"hp it moves its sessions to the other nodes; getCluster returns how many are left. Clients that may use the control " +
				"topic of clusters are not refused. A node without another one that responds and accepts clients is refused (400, " +
				"CONFLICT). Nodes of syncmode dynsec, and of brokers without this feature, cannot be drained (405, NOT_SUPPORTED)."},
		{ID: "undrainClusterNode", Method: "DELETE", Path: clusterPath + "/nodes/{nodeId}/drain", Role: auth.Editor, Status: 204, Errors: []int{405, 500, 503},
			Summary: "Undo the drain of a node of a cluster", Do: command(h.UndrainClusterNode),
			Description: "The node accepts clients again. Sessions do not move back by themselves."},
	}
}

// brokerExtensions exceed the specification of brokers.
func brokerExtensions(h *handlers.API) []route {
	return []route{
		{ID: "testBroker", Method: "POST", Path: projectPath + "/brokers/test", Role: auth.Admin, Status: 200,
			Summary: "Test a broker connection without storing it", Do: query(h.TestBroker),
			Description: "Connects once and returns the features of the broker, or why the connection failed, with status 200 " +
				"in both cases: the steps of the attempt, the cause of a failure with lines that may put it right, and the " +
				"certificates that the broker presented, also if they are not trusted. The fingerprint of the first one can be " +
				"given as `server_fingerprint`, after it was compared with that of the broker's own file."},
		{ID: "streamEvents", Method: "GET", Path: brokerPath + "/events", Role: auth.Viewer, Status: 200, Errors: []int{429},
			Summary: "Follow the events of a broker", Do: query(h.StreamEvents),
			Description: "Server-Sent Events, each with a JSON object as data. `metrics` is the load as in getMetricHistory " +
				"(`at`, `connected`, `subscriptions`, `retained`, `messagesIn`, `messagesOut`, `bytesIn`, `bytesOut`, `dropped`): of the " +
				"embedded broker every second, of another one whenever it reports. `state` is the state of the connection " +
				"(`connected`, `since`, `error`), at the beginning and when it changes. `denials` has the denials since the last event " +
				"(`denials`, as in listDenials and at most 50; `more`, whether there may be others). There is at most one event of a " +
				"type a second. A caller that reads too slowly loses events and receives `skipped` (`skipped`, their number). The " +
				"stream ends with the session or token, the role in the project, or the broker connection. At most 16 streams of a " +
				"caller (429) and 256 of all (503) are open.",
			Example: `"event: state\ndata: {\"connected\":true,\"since\":1769860800000}\n\n"`},
		{ID: "listenMessages", Method: "GET", Path: brokerPath + "/messages/events", Role: auth.Viewer, Status: 200, Errors: []int{429},
			Summary: "Follow what is published to a broker", Do: query(h.ListenMessages),
			Description: "Server-Sent Events. `message` is a message that was published after the stream had begun, once also if " +
				"several filters match (`topic`; `payload`, text or in base64 as `encoding` says, at most its first 1000 bytes; " +
				"`truncated`; `size` in bytes; `qos` as published, of a remote broker 0; `retain` as published, of a remote broker " +
				"that does not speak MQTT 5 false; `at` in epoch milliseconds; `properties` of MQTT 5 as in listRetained and `expiry` in " +
				"seconds, not of a remote broker that does not speak MQTT 5; `propertiesOmitted` if they have more than 1000 bytes). A message " +
				"that was retained before is not among them. A second has at most 50; `skipped` (`skipped`) is the number of those left " +
				"out. The stream ends when the broker is no longer reached, and otherwise as that of streamEvents, with which it is counted.",
			Example: `"event: message\ndata: {\"topic\":\"plant/7/state\",\"payload\":\"online\",\"size\":6,\"qos\":1,\"retain\":false,\"at\":1769860800000}\n\n"`},
		{ID: "getListenerCertificate", Method: "GET", Path: brokerPath + "/listeners/{listenerId}/certificate", Role: auth.Viewer, Status: 200,
			Summary: "Download the certificate of a listener", Do: query(h.GetListenerCertificate),
			Description: "The certificates that the listener presents to clients now, as PEM: its own one first, then those of " +
				"authorities as far as its file has them; never a key. A listener without TLS has none (404). A remote broker does not " +
				"return them (405).",
			Example: `"-----BEGIN CERTIFICATE-----\n..."`},
		{ID: "getMetricHistory", Method: "GET", Path: brokerPath + "/metrics/history", Role: auth.Viewer, Status: 200,
			Summary: "Get the load of a broker over time", Do: query(h.GetMetricHistory),
			Description: "Connected clients, subscriptions, retained messages, and messages, bytes and dropped messages per second, " +
				"from the broker's $SYS topics, also while the broker is not connected. The service keeps one hour in steps of 10 " +
				"seconds, one day in steps of one minute, three days in steps of 5 minutes and 30 days in steps of 10 minutes. An " +
				"interval without samples has null, never an estimate. An earlier start is moved to the oldest interval that is kept."},
	}
}

// inspectionExtensions rank connected clients and act on them.
func inspectionExtensions(h *handlers.API) []route {
	return []route{
		{ID: "topClients", Method: "GET", Path: brokerPath + "/client-inspect/top", Role: auth.Viewer, Status: 200,
			Summary: "List the clients with the highest figures", Do: query(h.TopClients),
			Description: "Sessions ordered by queue, dropped messages, rate, messages in flight or subscriptions, whether or not " +
				"their client is connected. The rate is measured for 0.9 seconds, which the response takes. A remote broker " +
				"orders by queue only (405 otherwise)."},
		{ID: "disconnectClient", Method: "DELETE", Path: brokerPath + "/client-inspect/connection", Role: auth.Editor, Status: 204,
			Summary: "Disconnect a client", Do: command(h.DisconnectClient),
			Description: "Closes the connection. The session remains as far as the client asked for that, and the client may " +
				"connect again; addBan or enableClient prevents that."},
		{ID: "forgetClient", Method: "DELETE", Path: brokerPath + "/client-inspect/session", Role: auth.Editor, Status: 204,
			Summary: "Delete a client's session", Do: command(h.ForgetClient),
			Description: "With its subscriptions and the messages that wait for it; closes the connection if there is one."},
		{ID: "subscribeClient", Method: "POST", Path: brokerPath + "/client-inspect/subscriptions", Role: auth.Editor, Status: 204,
			Summary: "Add a subscription to a client's session", Do: command(h.SubscribeClient),
			Description: "As if the client had subscribed. The rights of the client do not limit the subscription, but they " +
				"limit what is delivered."},
		{ID: "unsubscribeClient", Method: "DELETE", Path: brokerPath + "/client-inspect/subscriptions", Role: auth.Editor, Status: 204,
			Summary: "Remove a subscription from a client's session", Do: command(h.UnsubscribeClient),
			Description: "As if the client had unsubscribed."},
	}
}

// topicExtensions browse the topic tree.
func topicExtensions(h *handlers.API) []route {
	return []route{
		{ID: "listTopicLevel", Method: "GET", Path: brokerPath + "/topictree/level", Role: auth.Viewer, Status: 200,
			Summary: "Get one level of the topic tree, or search it", Do: query(h.ListTopicLevel),
			Description: "The topics and branches below a prefix, each with its number of topics, its messages a second and its " +
				"latest message. A request reads for at most a second and a search finds at most 1000 topics; `cut` says that " +
				"there may be more. In an HP cluster without `nodeid`, the trees of all nodes are merged."},
		{ID: "listTopicValues", Method: "GET", Path: brokerPath + "/topictree/values", Role: auth.Viewer, Status: 200,
			Summary: "Get the numbers of topics over time", Do: query(h.ListTopicValues),
			Description: "For each topic, in the order of the request, the numbers that its messages had in the last 10 minutes, as the " +
				"mean of each second: of payloads that are a number, such as `21.5`, or a JSON object, whose members that are numbers " +
				"are a series each, down to three levels. Numbers are kept in memory, from the first request for a topic until there " +
				"was none for a minute, of at most 100 topics and 4 series of each; payloads of more than 64 KiB, members whose " +
				"names have more than 128 bytes, and numbers beyond 1e300 are left out."},
	}
}

// messageExtensions read and delete retained messages, and publish.
func messageExtensions(h *handlers.API) []route {
	return []route{
		{ID: "publish", Method: "POST", Path: brokerPath + "/messages", Role: auth.Editor, Status: 204,
			Summary: "Publish a message", Audit: auditRepeated, Do: command(h.Publish),
			Description: "Returns when the broker has accepted the message, as far as the QoS provides for that."},
		{ID: "listRetained", Method: "GET", Path: brokerPath + "/messages/retained", Role: auth.Viewer, Status: 200,
			Summary: "List retained messages, or read one", Do: query(h.ListRetained),
			Description: "In order of their topics, with at most 1000 bytes of each payload; with `topic`, one message with " +
				"its whole payload."},
		{ID: "deleteRetained", Method: "DELETE", Path: brokerPath + "/messages/retained", Role: auth.Editor, Status: 200,
			Summary: "Delete retained messages", Do: query(h.DeleteRetained),
			Description: "The message of one topic, or those of all topics that match a filter."},
		{ID: "listSubscriptions", Method: "GET", Path: brokerPath + "/subscriptions", Role: auth.Viewer, Status: 200,
			Summary: "List the subscriptions of all clients", Do: query(h.ListSubscriptions),
			Description: "In order of client ids and then of topic filters."},
	}
}

// streamExtensions read a single stream, count and delete a part of its messages, stop a
// replay and preview a definition.
func streamExtensions(h *handlers.API) []route {
	return []route{
		{ID: "getStream", Method: "GET", Path: brokerPath + "/streams/detail", Role: auth.Viewer, Status: 200,
			Summary: "Get a stream", Do: query(h.GetStream),
			Description: "With its counters and the progress of a replay."},
		{ID: "getStreamMessageCount", Method: "GET", Path: brokerPath + "/streams/messages/count", Role: auth.Viewer, Status: 200,
			Summary: "Count the messages of a stream", Do: query(h.CountStreamMessages),
			Description: "The number of messages that the stream stores now."},
		{ID: "getStreamTimeline", Method: "GET", Path: brokerPath + "/streams/messages/timeline", Role: auth.Viewer, Status: 200,
			Summary: "Count the messages of a stream over time", Do: query(h.GetStreamTimeline),
			Description: "The number of messages that the stream stores from `gte` to `lte`, when the first and the last of them were " +
				"received, and how many are in each of `slices` parts of that time."},
		{ID: "clearStreamRange", Method: "DELETE", Path: brokerPath + "/streams/messages/range", Role: auth.Editor, Status: 204,
			Summary: "Delete the messages of a stream in a time range", Do: command(h.ClearStreamRange),
			Description: "Deletes the stored messages that the stream received from `gte` to `lte`. At least one bound is " +
				"required."},
		{ID: "stopStreamReplay", Method: "DELETE", Path: brokerPath + "/streams/replay", Role: auth.Viewer, Status: 204,
			Summary: "Stop the replay of a stream", Do: command(h.StopStreamReplay),
			Description: "Messages that were replayed already are not taken back."},
		{ID: "previewStream", Method: "POST", Path: brokerPath + "/streams/preview", Role: auth.Viewer, Status: 200,
			Summary: "Preview what a stream would do with messages", Audit: auditNothing, Do: query(h.PreviewStream),
			Description: "Processes messages as a stream of this definition would, and neither stores nor publishes anything: the result " +
				"for each message, or why it has none. A query with mistakes and other invalid members are refused as in createStream. " +
				"Aggregates begin with the first message. A broker with streams of its own is 405."},
	}
}

// accessExtensions import and export access control, explain its decisions, set the
// anonymous group and manage bans.
func accessExtensions(h *handlers.API) []route {
	return []route{
		{ID: "getAnonymousGroup", Method: "GET", Path: brokerPath + "/groups/anonymous", Role: auth.Viewer, Status: 200,
			Summary: "Get the anonymous group", Do: query(h.GetAnonymousGroup),
			Description: "The group whose roles apply to clients without a username."},
		{ID: "setAnonymousGroup", Method: "PUT", Path: brokerPath + "/groups/anonymous", Role: auth.Editor, Status: 204,
			Summary: "Set the anonymous group", Before: "getAnonymousGroup", Do: command(h.SetAnonymousGroup),
			Description: "Closes the connections of clients without a username, so that the change takes effect. A broker that " +
				"has had an anonymous group always has one."},
		{ID: "importAccess", Method: "POST", Path: brokerPath + "/access/import", Role: auth.Admin, Status: 200,
			Summary: "Import a dynamic-security.json", Large: true, Do: query(h.ImportAccess),
			Description: "All or nothing, password hashes included. The body, up to 64 MiB, has the form of Mosquitto's " +
				"dynamic-security.json (2.0 or 2.1). With `replace` the broker then holds exactly the document; without, a " +
				"contradiction to the existing access control is refused (400, ALREADY_EXISTS) and all are listed.",
			BodyExample: accessExample},
		{ID: "exportAccess", Method: "GET", Path: brokerPath + "/access/export", Role: auth.Admin, Status: 200,
			Summary: "Export access control as a dynamic-security.json", Large: true, Do: query(h.ExportAccess),
			Description: "In the form of Mosquitto 2.1, password hashes included.",
			Example:     accessExample},
		{ID: "checkAccess", Method: "GET", Path: brokerPath + "/access-check", Role: auth.Viewer, Status: 200,
			Summary: "Check whether a client may do something, and why", Do: query(h.CheckAccess),
			Description: "Returns the decision, and the ACL, role and group, or what else, that made it."},
		{ID: "listDenials", Method: "GET", Path: brokerPath + "/denials", Role: auth.Viewer, Status: 200,
			Summary: "List recent denials", Do: query(h.ListDenials),
			Description: "What clients were not allowed to do, the newest first; the broker keeps the last 1000."},
		{ID: "listBans", Method: "GET", Path: brokerPath + "/bans", Role: auth.Viewer, Status: 200,
			Summary: "List the bans", Do: query(h.ListBans),
			Description: "The bans in force, in order of kind and value."},
		{ID: "addBan", Method: "POST", Path: brokerPath + "/bans", Role: auth.Admin, Status: 204,
			Summary: "Ban a client id, a username or an address", Do: command(h.AddBan),
			Description: "Disconnects the clients concerned and keeps them from connecting, whatever their credentials. A ban " +
				"of the same kind and value is replaced."},
		{ID: "deleteBan", Method: "DELETE", Path: brokerPath + "/bans", Role: auth.Admin, Status: 204,
			Summary: "Delete a ban", Do: command(h.DeleteBan),
			Description: "Clients that it concerned may connect again."},
	}
}

// jobExtensions change many objects in the background. No action needs a higher role on one
// object than editor.
func jobExtensions(h *handlers.API) []route {
	const jobPath = brokerPath + "/jobs/{jobId}"
	return []route{
		{ID: "createJob", Method: "POST", Path: brokerPath + "/jobs", Role: auth.Editor, Status: 200,
			Summary: "Change many objects in the background", Do: query(h.CreateJob),
			Description: "Selects the objects by their names or by a filter and returns at once; with `dry_run` it only counts " +
				"them. At most 2 jobs run for a broker and 8 in all (400, CONFLICT). A job ends when its creator loses the right " +
				"to do the same, when the broker connection is changed or deleted, and with the service."},
		{ID: "listJobs", Method: "GET", Path: brokerPath + "/jobs", Role: auth.Viewer, Status: 200,
			Summary: "List the jobs of a broker", Do: query(h.ListJobs),
			Description: "The newest first, without failures. An ended job is listed for an hour, as long as it is among the last " +
				"20 of the broker and the last 100 of all brokers."},
		{ID: "getJob", Method: "GET", Path: jobPath, Role: auth.Viewer, Status: 200,
			Summary: "Get a job", Do: query(h.GetJob),
			Description: "With its progress and the first 1000 objects that were not changed."},
		{ID: "cancelJob", Method: "DELETE", Path: jobPath, Role: auth.Editor, Status: 204,
			Summary: "Cancel a job", Do: command(h.CancelJob),
			Description: "No further object is begun; what was changed stays changed. A job that has ended is not affected."},
	}
}

// serviceRoutes are about the service itself.
func (rt *router) serviceRoutes() []route {
	return []route{
		{ID: "getHealth", Method: http.MethodGet, Path: pathHealth, Role: auth.Public, Status: 200,
			Summary: "Check that the process runs", Do: query(rt.getHealth),
			Description: "Always succeeds while the process runs."},
		{ID: "getReadiness", Method: http.MethodGet, Path: pathReadiness, Role: auth.Public, Status: 200, Errors: []int{503},
			Summary: "Check that the service is ready", Do: query(rt.getReadiness),
			Description: "503 while the service cannot do its work: the database is not writable, or the embedded broker does " +
				"not serve."},
		{ID: "getOpenAPI", Method: http.MethodGet, Path: openAPIPath, Role: auth.Public, Status: 200,
			Summary: "Get this document", Produces: "application/json", Serve: http.HandlerFunc(rt.serveOpenAPI),
			Description: "OpenAPI 3.1, as JSON.",
			Example:     `{"openapi":"3.1.0","info":{"title":"signalbox","version":"1.0.0"},"paths":{}}`},
		{ID: "getSiteSchema", Method: http.MethodGet, Path: schemaPath, Role: auth.Public, Status: 200,
			Summary: "Get the JSON Schema of a file of declared state", Produces: "application/json", Serve: http.HandlerFunc(serveSiteSchema),
			Description: "The schema of files for the commands apply and diff, with which an editor completes and checks them.",
			Example:     `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Declared state of signalbox","type":"object"}`},
		{ID: "getDocs", Method: http.MethodGet, Path: docsPath, Role: auth.Public, Status: 200,
			Summary: "Read this document in a browser", Produces: "text/html", Serve: http.HandlerFunc(serveDocs),
			Description: "The page loads nothing from other servers.",
			Example:     `"<!DOCTYPE html>"`},
		{ID: "getDocsAsset", Method: http.MethodGet, Path: docsPath + "/{file}", Role: auth.Public, Status: 200,
			Summary: "Get a part of the documentation page", Produces: "*/*", Serve: docsAssets(),
			Description: "Scripts, styles and images.",
			Example:     `"body { margin: 0 }"`},
		{ID: "getManual", Method: http.MethodGet, Path: manualPath, Role: auth.Public, Status: 200,
			Summary: "Read or search the manual", Produces: "text/html", Serve: rt.manual.Index(manualPath),
			Description: "`?q=WORDS` lists the sections that contain all of these words.",
			Example:     `"<!DOCTYPE html>"`},
		{ID: "getManualPage", Method: http.MethodGet, Path: manualPath + "/{page}", Role: auth.Public, Status: 200, Errors: []int{404},
			Summary: "Read a page of the manual", Produces: "*/*", Serve: http.HandlerFunc(rt.serveManualPage),
			Description: "Also its style sheet.",
			Example:     `"<!DOCTYPE html>"`},
		{ID: "getDisk", Method: http.MethodGet, Path: "/api/disk", Role: auth.Root, Status: 200,
			Summary: "Get the free space of the disk", Do: query(rt.api.GetDisk),
			Description: "Of the disk with the data directory of the service."},
		{ID: "getSystem", Method: http.MethodGet, Path: "/api/system", Role: auth.Root, Status: 200,
			Summary: "Get the process of the service and its machine", Do: query(rt.api.GetSystem),
			Description: "The version, whether each part is ready, the databases, and the last upgrade. Updating is a command, " +
				"`signalbox upgrade`, or that of the system's packages: a service that replaces its own program would let whoever takes it over stay."},
		{ID: "getSupportBundle", Method: http.MethodGet, Path: "/api/system/support-bundle", Role: auth.Root, Status: 200, Errors: []int{400}, Large: true, Audit: auditRead,
			Summary: "Download a support bundle", Do: query(rt.api.GetSupportBundle),
			Description: "A compressed archive of what helps to find the cause of a problem elsewhere: the report of `signalbox doctor`, the " +
				"configuration, the last day of the log, metrics, goroutines and versions. Passwords, tokens, keys and payloads are not in it. " +
				"One is made at a time (CONFLICT).",
			Example: `"\u001f\u008b..."`},
		{ID: "getMetrics", Method: http.MethodGet, Path: "/metrics", Role: auth.Root, Status: 200, Scrape: true,
			Summary: "Get the metrics in Prometheus' text format", Produces: "text/plain", Serve: rt.metrics.handler(),
			Description: "For platform administrators, or with the token `http.metrics_token` of the configuration.",
			Example:     `"# TYPE signalbox_http_requests_total counter\n"`},
	}
}

// accessExample is an access-control configuration.
const accessExample = `{"defaultACLAccess":{"publishClientSend":false,"publishClientReceive":true,"subscribe":false,"unsubscribe":true},` +
	`"clients":[{"username":"meter-7","roles":[{"rolename":"sensors"}]}],"groups":[],` +
	`"roles":[{"rolename":"sensors","acls":[{"acltype":"publishClientSend","topic":"plant/%u/#","priority":0,"allow":true}]}]}`
