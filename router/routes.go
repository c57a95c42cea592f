package router

import (
	"slices"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// The prefixes of paths.
const (
	projectPath = "/api/projects/{projectId}"
	brokerPath  = projectPath + "/brokers/{brokerId}"
	bridgePath  = brokerPath + "/bridges/{bridgeId}"
	clusterPath = projectPath + "/clusters/{clusterId}"
)

// routes is the table. An operation that is not in it does not exist; the properties in
// a row are stated nowhere else. With auth.viewer_read_only, auth.Required raises the role
// Viewer of a row that writes to Editor.
func (rt *router) routes() []*route {
	h := rt.api
	return slices.Concat(
		tagged(tagClusters, clusterRoutes(h)),
		tagged(tagStreams, streamRoutes(h)),
		tagged(tagUsers, userRoutes(h)),
		tagged(tagAccess, accessRoutes(h)),
		tagged(tagInspection, inspectionRoutes(h)),
		tagged(tagBrokers, connectionRoutes(h)),
		tagged(tagBridges, bridgeRoutes(h)),
		tagged(tagBrokers, brokerFacts(h)),
		tagged(tagTopics, topicRoutes(h)),
		tagged(tagTokens, tokenRoutes(h)),
		tagged(tagProjects, projectRoutes(h)),
		rt.extensions(),
	)
}

// tagged puts rows under a heading of the document.
func tagged(tag string, rows []route) []*route {
	list := make([]*route, 0, len(rows))
	for i := range rows {
		rows[i].Tag = tag
		list = append(list, &rows[i])
	}
	return list
}

// clusterRoutes are operations 1 to 8.
func clusterRoutes(h *handlers.API) []route {
	return []route{
		{ID: "getCluster", Method: "GET", Path: clusterPath, Role: auth.Viewer, Status: 200, Errors: setB,
			Summary: "Get a cluster", Do: query(h.GetCluster),
			Description: "Its nodes are asked for their state; one that cannot be reached has an `error`."},
		{ID: "deleteCluster", Method: "DELETE", Path: clusterPath, Role: auth.Admin, Status: 200, Errors: setB,
			Summary: "Delete a cluster", Do: query(h.DeleteCluster),
			Description: "Dissolves the cluster: every node continues on its own with the data that it has. If that fails, 503 " +
				"is returned and nothing is deleted, unless `purge` is true."},
		{ID: "joinCluster", Method: "PUT", Path: clusterPath + "/join", Role: auth.Editor, Status: 204, Errors: setB,
			Summary: "Add a node to a cluster", Do: command(h.JoinCluster),
			Description: "Also adds a node again that lost its data (with the same `nodeid` and address) or could not join " +
				"before. What the node had of the shared data is replaced by that of the cluster. If the leader cannot reach the node " +
				"at its address, 503 is returned after some seconds and the node is not added."},
		{ID: "leaveCluster", Method: "PUT", Path: clusterPath + "/leave", Role: auth.Editor, Status: 204, Errors: setB,
			Summary: "Remove a node from a cluster", Do: command(h.LeaveCluster),
			Description: "The node continues on its own with the data that it has. A node that cannot be reached can be " +
				"removed, too; the last node cannot."},
		{ID: "listClusters", Method: "GET", Path: projectPath + "/clusters", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the project's clusters", Do: query(h.ListClusters),
			Description: "The nodes are asked for their state; one that cannot be reached has an `error`."},
		{ID: "createCluster", Method: "POST", Path: projectPath + "/clusters", Role: auth.Admin, Status: 200, Errors: setC,
			Summary: "Create a cluster", Do: query(h.CreateCluster),
			Description: "The state of the first node becomes that of the cluster; what the others had of the shared data is " +
				"replaced. Brokers that already are this cluster (same name, mode and nodes) are adopted. The response is the " +
				"connection of the first node, with the credentials from the request; it is not stored in this form."},
		{ID: "deleteClusters", Method: "DELETE", Path: projectPath + "/clusters", Role: auth.Admin, Status: 207, Errors: setC,
			Summary: "Delete all clusters of the project", Do: query(h.DeleteClusters),
			Description: "Dissolves each cluster as deleteCluster does. The response has one entry for each cluster.",
			Example:     `[{"clusterId":"0190f3c2-9c7d-7b11-a2f4-6d5e4c3b2a19","clustername":"plant","status":200,"deleted":true}]`},
		{ID: "getRaftStatus", Method: "GET", Path: projectPath + "/clusters" + "/status", Role: auth.Viewer, Status: 207, Errors: setB,
			Summary: "Get the Raft status of every cluster of the project", Do: query(h.GetRaftStatus),
			Description: "One entry for each cluster, with the status as its leader reports it or, where there is none, the " +
				"first node that can be reached."},
	}
}

// streamRoutes are operations 9 to 14.
func streamRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listStreams", Method: "GET", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List streams", Do: query(h.ListStreams),
			Description: "In order of their names. The rates of messages are an extension."},
		{ID: "createStream", Method: "POST", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a stream", Do: command(h.CreateStream),
			Description: "The stream receives messages from now on. A query with mistakes and a loop of active streams are " +
				"refused; `info.errors` names each place."},
		{ID: "modifyStream", Method: "PUT", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a stream", Before: "getStream?streamname={streamname}", Do: command(h.ModifyStream),
			Description: "Changes the members that are present, or with `replace` the whole definition. Stored messages are " +
				"kept."},
		{ID: "deleteStream", Method: "DELETE", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a stream", Before: "getStream?streamname={streamname}", Do: command(h.DeleteStream),
			Description: "Deletes the stream with the messages that it stores."},
		{ID: "clearStreamMessages", Method: "DELETE", Path: brokerPath + "/streams/messages", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete all messages of a stream", Do: command(h.ClearStreamMessages),
			Description: "The stream itself remains."},
		{ID: "replayStream", Method: "PUT", Path: brokerPath + "/streams/replay", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Replay a stream", Do: command(h.ReplayStream),
			Description: "Starts a replay, which publishes the stored messages to `replayTopic`, and returns. A stream has one " +
				"replay at a time (400, CONFLICT). `replay` in the record of the stream shows its progress. It ends with the " +
				"service."},
	}
}

// userRoutes are operations 15 to 21.
func userRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listAdmins", Method: "GET", Path: "/api/users/admins", Role: auth.Root, Status: 200, Errors: []int{401, 404, 500},
			Summary: "List the platform administrators", Do: query(h.ListAdmins),
			Description: "A platform administrator manages users and acts as admin in every project."},
		{ID: "addAdmin", Method: "PUT", Path: "/api/users/admins", Role: auth.Root, Status: 204, Errors: []int{400, 401, 500},
			Summary: "Make a user a platform administrator", Do: command(h.AddAdmin),
			Description: "The user must exist; otherwise 400 with the code NOT_FOUND. Nothing changes for an administrator."},
		{ID: "removeAdmin", Method: "DELETE", Path: "/api/users/admins", Role: auth.Root, Status: 204, Errors: []int{400, 401, 500},
			Summary: "Make a platform administrator an ordinary user", Do: command(h.RemoveAdmin),
			Description: "The last administrator cannot be removed (400, LAST_ADMIN)."},
		{ID: "getUser", Method: "GET", Path: "/api/users/{userId}", Role: auth.Root, Status: 200, Errors: []int{401, 404, 500},
			Summary: "Get a user", Do: query(h.GetUser),
			Description: "The figures for billing are always 0."},
		{ID: "deleteUser", Method: "DELETE", Path: "/api/users/{userId}", Role: auth.Root, Status: 204, Errors: []int{400, 401, 500},
			Summary: "Delete a user", Before: "getUser", Do: command(h.DeleteUser),
			Description: "Ends the user's sessions, memberships and tokens. A user who owns projects cannot be deleted (400, " +
				"CONFLICT), nor can the last administrator (400, LAST_ADMIN)."},
		{ID: "listUsers", Method: "GET", Path: "/api/users", Role: auth.Root, Status: 200, Errors: []int{401, 500},
			Summary: "List the users", Do: query(h.ListUsers),
			Description: "The oldest first, one page at a time."},
		{ID: "createUser", Method: "POST", Path: "/api/users", Role: auth.Root, Status: 200, Errors: []int{400, 401, 500},
			Summary: "Create a user", Do: query(h.CreateUser),
			Description: "The email address must be unique (400, ALREADY_EXISTS). The user has no project yet."},
	}
}

// accessRoutes are operations 22 to 36. Viewers may write, as the specification has it;
// auth.viewer_read_only raises these rows to editors.
func accessRoutes(h *handlers.API) []route {
	return []route{
		{ID: "getDefaultACLAccess", Method: "GET", Path: brokerPath + "/acldefault", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the default ACL", Do: query(h.GetDefaultACLAccess),
			Description: "The access where no ACL of a role matches, one entry for each type."},
		{ID: "setDefaultACLAccess", Method: "PUT", Path: brokerPath + "/acldefault", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Change the default ACL", Before: "getDefaultACLAccess", Do: command(h.SetDefaultACLAccess),
			Description: "The body has one to four entries; types that it does not name stay unchanged."},
		{ID: "listClients", Method: "GET", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List clients", Do: query(h.ListClients),
			Description: "The clients of access control, connected or not, in order of their usernames."},
		{ID: "createClient", Method: "POST", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a client", Do: command(h.CreateClient),
			Description: "The groups and roles must exist. The username must be unique (400, ALREADY_EXISTS)."},
		{ID: "modifyClient", Method: "PUT", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a client", Before: "listClients?username={username}", Do: command(h.ModifyClient),
			Description: "Changes the members that are present. The connections of the client are closed, so that the change " +
				"takes effect."},
		{ID: "deleteClient", Method: "DELETE", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a client", Before: "listClients?username={username}", Do: command(h.DeleteClient),
			Description: "Closes the connections of the client. The client with which the service itself manages the broker " +
				"cannot be deleted (400, CONFLICT)."},
		{ID: "enableClient", Method: "PUT", Path: brokerPath + "/clients/enable", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Enable or disable a client", Before: "listClients?username={username}", Do: command(h.EnableClient),
			Description: "A client that is disabled is disconnected and cannot connect. The client with which the service " +
				"itself manages the broker cannot be disabled (400, CONFLICT)."},
		{ID: "listGroups", Method: "GET", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List groups", Do: query(h.ListGroups),
			Description: "In order of their names."},
		{ID: "createGroup", Method: "POST", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a group", Do: command(h.CreateGroup),
			Description: "The roles must exist. The name must be unique (400, ALREADY_EXISTS)."},
		{ID: "modifyGroup", Method: "PUT", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a group", Before: "listGroups?filterTarget=groupname&filterMode=equals&filterValue={groupname}", Do: command(h.ModifyGroup),
			Description: "Changes the members that are present. If `clients` or `roles` are present, the connections of former and new " +
				"members are closed."},
		{ID: "deleteGroup", Method: "DELETE", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a group", Before: "listGroups?filterTarget=groupname&filterMode=equals&filterValue={groupname}", Do: command(h.DeleteGroup),
			Description: "Closes the connections of its members. The anonymous group cannot be deleted."},
		{ID: "listRoles", Method: "GET", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List roles", Do: query(h.ListRoles),
			Description: "In order of their names."},
		{ID: "createRole", Method: "POST", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a role", Do: command(h.CreateRole),
			Description: "The name must be unique (400, ALREADY_EXISTS). A role has at most one ACL for each type and topic."},
		{ID: "modifyRole", Method: "PUT", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a role", Before: "listRoles?filterTarget=rolename&filterMode=equals&filterValue={rolename}", Do: command(h.ModifyRole),
			Description: "Changes the members that are present. If `acls` or `allowwildcardsubs` change, the connections of " +
				"clients that have the role are closed."},
		{ID: "deleteRole", Method: "DELETE", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a role", Before: "listRoles?filterTarget=rolename&filterMode=equals&filterValue={rolename}", Do: command(h.DeleteRole),
			Description: "Clients and groups lose the role, and the connections of clients that had it are closed."},
	}
}

// inspectionRoutes are operations 37 and 38.
func inspectionRoutes(h *handlers.API) []route {
	return []route{
		{ID: "inspectClients", Method: "GET", Path: brokerPath + "/client-inspect", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List connected clients", Do: query(h.InspectClients),
			Description: "In order of their client ids. Sessions whose client is not connected are listed, too, with " +
				"`connected` false. The filters are an extension, and so are the listener of a " +
				"connection, the number of subscriptions, of messages in flight and of dropped ones, and the rates of messages."},
		{ID: "inspectClient", Method: "GET", Path: brokerPath + "/client-inspect/detail", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the detail of a connected client", Do: query(h.InspectClient),
			Description: "Also of a session whose client is not connected."},
	}
}

// connectionRoutes are operations 39 to 43.
func connectionRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listBrokers", Method: "GET", Path: projectPath + "/brokers", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the project's brokers", Restricted: true, Do: query(h.ListBrokers),
			Description: "Those that the caller may use, with the state of each connection. Passwords and keys are never " +
				"returned."},
		{ID: "createBroker", Method: "POST", Path: projectPath + "/brokers", Role: auth.Admin, Status: 200, Errors: setA,
			Summary: "Add a broker connection", Do: query(h.CreateBroker),
			Description: "Stores the connection and connects in the background: `status` of the broker shows the outcome. " +
				"testBroker tries a connection before it is stored. Files are read from the directory `certs` of the data " +
				"directory."},
		{ID: "getBroker", Method: "GET", Path: brokerPath, Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get a broker", Do: query(h.GetBroker),
			Description: "The connection with its state, the features of the broker, and what it does not have. Passwords and " +
				"keys are never returned."},
		{ID: "deleteBroker", Method: "DELETE", Path: brokerPath, Role: auth.Admin, Status: 204, Errors: setA,
			Summary: "Delete a broker connection", Before: "getBroker", Do: command(h.DeleteBroker),
			Description: "Also deletes the streams and bridges that this service runs for it; the broker itself is not " +
				"changed. The connection of the embedded broker, or of a node of a cluster, cannot be deleted (400, CONFLICT)."},
		{ID: "updateBroker", Method: "PUT", Path: brokerPath, Role: auth.Editor, Status: 204, Errors: setA,
			Summary: "Update a broker connection", Before: "getBroker", Do: command(h.UpdateBroker),
			Description: "Changes the members that are present, null clears one, and connects again. A stored password or key " +
				"is sent only to the address, with the TLS checks, for which it was stored: if these change, the secret is " +
				"required in the same request. The connection of the embedded broker cannot be changed (400, CONFLICT)."},
	}
}

// brokerFacts are operations 48 to 50.
func brokerFacts(h *handlers.API) []route {
	return []route{
		{ID: "getBrokerInfo", Method: "GET", Path: brokerPath + "/info", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Connect to the broker and get its information", Do: query(h.GetBrokerInfo),
			Description: "Waits up to 5 seconds for a connection. If the broker cannot be reached, `isConnected` is false."},
		{ID: "getLicense", Method: "GET", Path: brokerPath + "/license", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the licence of the broker", Do: query(h.GetLicense),
			Description: "A broker that has no licence to report is answered with 405; getBrokerInfo then shows an open " +
				"licence."},
		{ID: "listListeners", Method: "GET", Path: brokerPath + "/listeners", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the listeners of the broker with their certificates", Do: query(h.ListListeners),
			Description: "The listeners of the broker's configuration."},
	}
}

// topicRoutes are operations 51 to 53.
func topicRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listTopics", Method: "GET", Path: brokerPath + "/topictree", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the topic tree", Do: query(h.ListTopics),
			Description: "One tree, or for an HP cluster without `nodeid` an array with one tree per node. `offset` and " +
				"`count` apply to each list. At most 50,000 topics are listed."},
		{ID: "getTTL", Method: "GET", Path: brokerPath + "/topictree/ttl", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the time to live of topics", Do: query(h.GetTTL),
			Description: "The time after which an unused topic is removed from the topic tree; by default 60 seconds."},
		{ID: "setTTL", Method: "PUT", Path: brokerPath + "/topictree/ttl", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Set the time to live of topics", Before: "getTTL", Do: command(h.SetTTL),
			Description: "For the whole broker, or for a node of an HP cluster."},
	}
}

// tokenRoutes are operations 54 to 56.
func tokenRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listTokens", Method: "GET", Path: projectPath + "/tokens", Role: auth.Viewer, Status: 200, Errors: setB,
			Summary: "List the project's tokens", Do: query(h.ListTokens),
			Description: "Without their values, which are returned only once."},
		{ID: "createToken", Method: "POST", Path: projectPath + "/tokens", Role: auth.Admin, Status: 200, Errors: setB,
			Summary: "Create a token", Do: query(h.CreateToken),
			Description: "The value is returned only here. The token ends with the membership of the user who creates it, or " +
				"with the token that creates it; it can neither do more nor live longer than that."},
		{ID: "deleteToken", Method: "DELETE", Path: projectPath + "/tokens/{tokenId}", Role: auth.Admin, Status: 200, Errors: setB,
			Summary: "Revoke a token", Before: "listTokens", Do: query(h.DeleteToken),
			Description: "Also revokes the tokens that it created."},
	}
}

// projectRoutes are operations 57 and 58.
func projectRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listProjects", Method: "GET", Path: "/api/projects", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the caller's projects", Do: query(h.ListProjects),
			Description: "Those that the caller owns or is a member of; for a platform administrator all. `counts=true` adds the " +
				"number of members and brokers of each."},
		{ID: "getProjectSettings", Method: "GET", Path: projectPath + "/settings", Role: auth.Editor, Status: 200, Errors: setA,
			Summary: "Get a project's settings with its brokers", Restricted: true, Do: query(h.GetProjectSettings),
			Description: "Brokers are one of three variants, told apart by `type`. A restricted token sees only its brokers."},
	}
}
