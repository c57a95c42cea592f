package router

import (
	"slices"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// The beginnings of paths, and the tags under which the document groups them.
const (
	projectPath = "/api/projects/{projectId}"
	brokerPath  = projectPath + "/brokers/{brokerId}"
	bridgePath  = brokerPath + "/bridges/{bridgeId}"
	clusterPath = projectPath + "/clusters/{clusterId}"

	tagClusters = "Clusters"
)

// routes is THE table. An operation that is not in it does not exist; what
// stands in a row is stated nowhere else.
func (rt *router) routes() []*route {
	h := rt.api
	return slices.Concat(
		tagged(tagClusters, clusterRoutes(h)),
		tagged("Streams", streamRoutes(h)),
		tagged("Users", userRoutes(h)),
		tagged("Access control", accessRoutes(h)),
		tagged("Client inspection", inspectionRoutes(h)),
		tagged("Brokers", brokerRoutes(h)),
		tagged("Topic tree", topicRoutes(h)),
		tagged("Tokens", tokenRoutes(h)),
		tagged("Projects", projectRoutes(h)),
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
			Summary: "Get a cluster", Do: query(h.GetCluster)},
		{ID: "deleteCluster", Method: "DELETE", Path: clusterPath, Role: auth.Admin, Status: 200, Errors: setB,
			Summary: "Delete a cluster", Do: query(h.DeleteCluster)},
		{ID: "joinCluster", Method: "PUT", Path: clusterPath + "/join", Role: auth.Editor, Status: 204, Errors: setB,
			Summary: "Add a node to a cluster", Do: command(h.JoinCluster)},
		{ID: "leaveCluster", Method: "PUT", Path: clusterPath + "/leave", Role: auth.Editor, Status: 204, Errors: setB,
			Summary: "Remove a node from a cluster", Do: command(h.LeaveCluster)},
		{ID: "listClusters", Method: "GET", Path: projectPath + "/clusters", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the project's clusters", Do: query(h.ListClusters)},
		{ID: "createCluster", Method: "POST", Path: projectPath + "/clusters", Role: auth.Admin, Status: 200, Errors: setC,
			Summary: "Create a cluster", Do: query(h.CreateCluster)},
		{ID: "deleteClusters", Method: "DELETE", Path: projectPath + "/clusters", Role: auth.Admin, Status: 207, Errors: setC,
			Summary: "Delete all clusters of the project", Do: query(h.DeleteClusters)},
		{ID: "getRaftStatus", Method: "GET", Path: projectPath + "/clusters" + "/status", Role: auth.Viewer, Status: 207, Errors: setB,
			Summary: "Get the raft status of every cluster of the project", Do: query(h.GetRaftStatus)},
	}
}

// streamRoutes are operations 9 to 14.
func streamRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listStreams", Method: "GET", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List streams", Do: query(h.ListStreams)},
		{ID: "createStream", Method: "POST", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a stream", Do: command(h.CreateStream)},
		{ID: "modifyStream", Method: "PUT", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a stream", Do: command(h.ModifyStream)},
		{ID: "deleteStream", Method: "DELETE", Path: brokerPath + "/streams", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a stream", Do: command(h.DeleteStream)},
		{ID: "clearStreamMessages", Method: "DELETE", Path: brokerPath + "/streams/messages", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete all messages of a stream", Do: command(h.ClearStreamMessages)},
		{ID: "replayStream", Method: "PUT", Path: brokerPath + "/streams/replay", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Replay a stream", Do: command(h.ReplayStream)},
	}
}

// userRoutes are operations 15 to 21.
func userRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listAdmins", Method: "GET", Path: "/api/users/admins", Role: auth.Root, Status: 200, Errors: []int{401, 404, 500},
			Summary: "List the platform administrators", Do: query(h.ListAdmins)},
		{ID: "addAdmin", Method: "PUT", Path: "/api/users/admins", Role: auth.Root, Status: 204, Errors: []int{400, 401, 500},
			Summary: "Make a user a platform administrator", Do: command(h.AddAdmin)},
		{ID: "removeAdmin", Method: "DELETE", Path: "/api/users/admins", Role: auth.Root, Status: 204, Errors: []int{400, 401, 500},
			Summary: "Make a platform administrator an ordinary user", Do: command(h.RemoveAdmin)},
		{ID: "getUser", Method: "GET", Path: "/api/users/{userId}", Role: auth.Root, Status: 200, Errors: []int{401, 404, 500},
			Summary: "Get a user", Do: query(h.GetUser)},
		{ID: "deleteUser", Method: "DELETE", Path: "/api/users/{userId}", Role: auth.Root, Status: 204, Errors: []int{400, 401, 500},
			Summary: "Delete a user", Do: command(h.DeleteUser)},
		{ID: "listUsers", Method: "GET", Path: "/api/users", Role: auth.Root, Status: 200, Errors: []int{401, 500},
			Summary: "List the users", Do: query(h.ListUsers)},
		{ID: "createUser", Method: "POST", Path: "/api/users", Role: auth.Root, Status: 200, Errors: []int{400, 401, 500},
			Summary: "Create a user", Do: query(h.CreateUser)},
	}
}

// accessRoutes are operations 22 to 36.
func accessRoutes(h *handlers.API) []route {
	return []route{
		{ID: "getDefaultACLAccess", Method: "GET", Path: brokerPath + "/acldefault", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the default ACL", Do: query(h.GetDefaultACLAccess)},
		{ID: "setDefaultACLAccess", Method: "PUT", Path: brokerPath + "/acldefault", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Change the default ACL", Do: command(h.SetDefaultACLAccess)},
		{ID: "listClients", Method: "GET", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List clients", Do: query(h.ListClients)},
		{ID: "createClient", Method: "POST", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a client", Do: command(h.CreateClient)},
		{ID: "modifyClient", Method: "PUT", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a client", Do: command(h.ModifyClient)},
		{ID: "deleteClient", Method: "DELETE", Path: brokerPath + "/clients", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a client", Do: command(h.DeleteClient)},
		{ID: "enableClient", Method: "PUT", Path: brokerPath + "/clients/enable", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Enable or disable a client", Do: command(h.EnableClient)},
		{ID: "listGroups", Method: "GET", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List groups", Do: query(h.ListGroups)},
		{ID: "createGroup", Method: "POST", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a group", Do: command(h.CreateGroup)},
		{ID: "modifyGroup", Method: "PUT", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a group", Do: command(h.ModifyGroup)},
		{ID: "deleteGroup", Method: "DELETE", Path: brokerPath + "/groups", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a group", Do: command(h.DeleteGroup)},
		{ID: "listRoles", Method: "GET", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List roles", Do: query(h.ListRoles)},
		{ID: "createRole", Method: "POST", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Create a role", Do: command(h.CreateRole)},
		{ID: "modifyRole", Method: "PUT", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Update a role", Do: command(h.ModifyRole)},
		{ID: "deleteRole", Method: "DELETE", Path: brokerPath + "/roles", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Delete a role", Do: command(h.DeleteRole)},
	}
}

// inspectionRoutes are operations 37 and 38.
func inspectionRoutes(h *handlers.API) []route {
	return []route{
		{ID: "inspectClients", Method: "GET", Path: brokerPath + "/client-inspect", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List connected clients", Do: query(h.InspectClients)},
		{ID: "inspectClient", Method: "GET", Path: brokerPath + "/client-inspect/detail", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the detail of a connected client", Do: query(h.InspectClient)},
	}
}

// brokerRoutes are operations 39 to 50.
func brokerRoutes(h *handlers.API) []route {
	return slices.Concat(connectionRoutes(h), bridgeRoutes(h), brokerFacts(h))
}

// connectionRoutes are operations 39 to 43.
func connectionRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listBrokers", Method: "GET", Path: projectPath + "/brokers", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the project's brokers", Restricted: true, Do: query(h.ListBrokers)},
		{ID: "createBroker", Method: "POST", Path: projectPath + "/brokers", Role: auth.Admin, Status: 200, Errors: setA,
			Summary: "Add a broker connection", Do: query(h.CreateBroker)},
		{ID: "getBroker", Method: "GET", Path: brokerPath, Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get a broker", Do: query(h.GetBroker)},
		{ID: "deleteBroker", Method: "DELETE", Path: brokerPath, Role: auth.Admin, Status: 204, Errors: setA,
			Summary: "Delete a broker connection", Do: command(h.DeleteBroker)},
		{ID: "updateBroker", Method: "PUT", Path: brokerPath, Role: auth.Editor, Status: 204, Errors: setA,
			Summary: "Update a broker connection", Do: command(h.UpdateBroker)},
	}
}

// brokerFacts are operations 48 to 50.
func brokerFacts(h *handlers.API) []route {
	return []route{
		{ID: "getBrokerInfo", Method: "GET", Path: brokerPath + "/info", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Connect to the broker and get what it tells about itself", Do: query(h.GetBrokerInfo)},
		{ID: "getLicense", Method: "GET", Path: brokerPath + "/license", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the licence of the broker", Do: query(h.GetLicense)},
		{ID: "listListeners", Method: "GET", Path: brokerPath + "/listeners", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the listeners of the broker with their certificates", Do: query(h.ListListeners)},
	}
}

// topicRoutes are operations 51 to 53.
func topicRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listTopics", Method: "GET", Path: brokerPath + "/topictree", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the topic tree", Do: query(h.ListTopics)},
		{ID: "getTTL", Method: "GET", Path: brokerPath + "/topictree/ttl", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "Get the time to live of topics", Do: query(h.GetTTL)},
		{ID: "setTTL", Method: "PUT", Path: brokerPath + "/topictree/ttl", Role: auth.Viewer, Status: 204, Errors: setA,
			Summary: "Set the time to live of topics", Do: command(h.SetTTL)},
	}
}

// tokenRoutes are operations 54 to 56.
func tokenRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listTokens", Method: "GET", Path: projectPath + "/tokens", Role: auth.Viewer, Status: 200, Errors: setB,
			Summary: "List the project's tokens", Do: query(h.ListTokens)},
		{ID: "createToken", Method: "POST", Path: projectPath + "/tokens", Role: auth.Admin, Status: 200, Errors: setB,
			Summary: "Create a token", Do: query(h.CreateToken)},
		{ID: "deleteToken", Method: "DELETE", Path: projectPath + "/tokens/{tokenId}", Role: auth.Admin, Status: 200, Errors: setB,
			Summary: "Revoke a token", Do: query(h.DeleteToken)},
	}
}

// projectRoutes are operations 57 and 58.
func projectRoutes(h *handlers.API) []route {
	return []route{
		{ID: "listProjects", Method: "GET", Path: "/api/projects", Role: auth.Viewer, Status: 200, Errors: setA,
			Summary: "List the caller's projects", Do: query(h.ListProjects)},
		{ID: "getProjectSettings", Method: "GET", Path: projectPath + "/settings", Role: auth.Editor, Status: 200, Errors: setA,
			Summary: "Get a project's settings with its brokers", Restricted: true, Do: query(h.GetProjectSettings)},
	}
}
