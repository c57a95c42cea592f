package router

import (
	"net/http"
	"slices"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// extensions are the operations that the specification needs but does not list,
// and what the service tells about itself.
func (rt *router) extensions() []*route {
	h := rt.api
	rows := slices.Concat(
		tagged("Session", sessionRoutes(h)),
		tagged("Projects", projectExtensions(h)),
		tagged("Tokens", tokenExtensions(h)),
		tagged("Users", userExtensions(h)),
		tagged("Clusters", clusterExtensions(h)),
		tagged("Brokers", brokerExtensions(h)),
		tagged("Brokers", bridgeExtensions(h)),
		tagged("Client inspection", inspectionExtensions(h)),
		tagged("Messages", messageExtensions(h)),
		tagged("Streams", streamExtensions(h)),
		tagged("Access control", accessExtensions(h)),
		tagged("Service", rt.serviceRoutes()),
	)
	for _, row := range rows {
		row.Extension = true
	}
	return rows
}

// sessionRoutes begin and end sessions.
func sessionRoutes(h *handlers.API) []route {
	return []route{
		{ID: "login", Method: "POST", Path: "/api/auth/login", Role: auth.Public, Status: 200, Errors: []int{401, 403, 429},
			Summary: "Log in", Do: query(h.Login)},
		{ID: "logout", Method: "POST", Path: "/api/auth/logout", Role: auth.SignedIn, Status: 204,
			Summary: "End the session", UsersOnly: true, Do: query(h.Logout)},
		{ID: "me", Method: "GET", Path: "/api/auth/me", Role: auth.SignedIn, Status: 200,
			Summary: "Tell who is calling", Do: query(h.Me)},
		{ID: "changePassword", Method: "PUT", Path: "/api/auth/password", Role: auth.SignedIn, Status: 204, Errors: []int{429},
			Summary: "Change the own password", UsersOnly: true, Do: command(h.ChangePassword)},
	}
}

// projectExtensions manage projects and who is in them.
func projectExtensions(h *handlers.API) []route {
	return []route{
		{ID: "createProject", Method: "POST", Path: "/api/projects", Role: auth.SignedIn, Status: 200,
			Summary: "Create a project", UsersOnly: true, Creators: true, Do: query(h.CreateProject)},
		{ID: "getProject", Method: "GET", Path: projectPath, Role: auth.Viewer, Status: 200,
			Summary: "Get a project", Restricted: true, Do: query(h.GetProject)},
		{ID: "updateProject", Method: "PUT", Path: projectPath, Role: auth.Admin, Status: 204,
			Summary: "Update a project", Do: command(h.UpdateProject)},
		{ID: "deleteProject", Method: "DELETE", Path: projectPath, Role: auth.Admin, Status: 204,
			Summary: "Delete a project", Do: command(h.DeleteProject)},
		{ID: "listMembers", Method: "GET", Path: projectPath + "/members", Role: auth.Viewer, Status: 200,
			Summary: "List the project's members", Do: query(h.ListMembers)},
		{ID: "putMember", Method: "PUT", Path: projectPath + "/members/{userId}", Role: auth.Admin, Status: 204,
			Summary: "Add a member or change the member's role", Do: command(h.PutMember)},
		{ID: "deleteMember", Method: "DELETE", Path: projectPath + "/members/{userId}", Role: auth.Admin, Status: 204,
			Summary: "Remove a member", Do: command(h.DeleteMember)},
	}
}

// tokenExtensions manage tokens.
func tokenExtensions(h *handlers.API) []route {
	return []route{
		{ID: "takeToken", Method: "PUT", Path: projectPath + "/tokens/{tokenId}/owner", Role: auth.Admin, Status: 204,
			Summary: "Become the owner of a token and of those that it made", UsersOnly: true, Do: command(h.TakeToken)},
	}
}

// userExtensions manage users.
func userExtensions(h *handlers.API) []route {
	return []route{
		{ID: "updateUser", Method: "PUT", Path: "/api/users/{userId}", Role: auth.Root, Status: 204,
			Summary: "Update a user", Do: command(h.UpdateUser)},
	}
}

// clusterExtensions go beyond what the specification asks of a cluster.
func clusterExtensions(h *handlers.API) []route {
	return []route{
		{ID: "setClusterLeader", Method: "PUT", Path: clusterPath + "/leader", Role: auth.Editor, Status: 204, Errors: []int{500, 503},
			Summary: "Have another node lead the cluster", Do: command(h.SetClusterLeader)},
	}
}

// brokerExtensions go beyond what the specification asks of a broker.
func brokerExtensions(h *handlers.API) []route {
	return []route{
		{ID: "testBroker", Method: "POST", Path: projectPath + "/brokers/test", Role: auth.Admin, Status: 200,
			Summary: "Try a broker connection without storing it", Do: query(h.TestBroker)},
	}
}

// inspectionExtensions act on connected clients.
func inspectionExtensions(h *handlers.API) []route {
	return []route{
		{ID: "disconnectClient", Method: "DELETE", Path: brokerPath + "/client-inspect/connection", Role: auth.Editor, Status: 204,
			Summary: "Disconnect a client", Do: command(h.DisconnectClient)},
		{ID: "forgetClient", Method: "DELETE", Path: brokerPath + "/client-inspect/session", Role: auth.Editor, Status: 204,
			Summary: "End a client's session, with all that waits for it", Do: command(h.ForgetClient)},
		{ID: "subscribeClient", Method: "POST", Path: brokerPath + "/client-inspect/subscriptions", Role: auth.Editor, Status: 204,
			Summary: "Subscribe a client in its place", Do: command(h.SubscribeClient)},
		{ID: "unsubscribeClient", Method: "DELETE", Path: brokerPath + "/client-inspect/subscriptions", Role: auth.Editor, Status: 204,
			Summary: "End a subscription of a client in its place", Do: command(h.UnsubscribeClient)},
	}
}

// messageExtensions read and change what a broker retains, and publish.
func messageExtensions(h *handlers.API) []route {
	return []route{
		{ID: "publish", Method: "POST", Path: brokerPath + "/messages", Role: auth.Editor, Status: 204,
			Summary: "Publish a message", Do: command(h.Publish)},
		{ID: "listRetained", Method: "GET", Path: brokerPath + "/messages/retained", Role: auth.Viewer, Status: 200,
			Summary: "List retained messages, or read one", Do: query(h.ListRetained)},
		{ID: "deleteRetained", Method: "DELETE", Path: brokerPath + "/messages/retained", Role: auth.Editor, Status: 200,
			Summary: "Delete retained messages", Do: query(h.DeleteRetained)},
		{ID: "listSubscriptions", Method: "GET", Path: brokerPath + "/subscriptions", Role: auth.Viewer, Status: 200,
			Summary: "List the subscriptions of all clients", Do: query(h.ListSubscriptions)},
	}
}

// streamExtensions read a stream alone, count and delete a part of what it
// keeps, and end a replay.
func streamExtensions(h *handlers.API) []route {
	return []route{
		{ID: "getStream", Method: "GET", Path: brokerPath + "/streams/detail", Role: auth.Viewer, Status: 200,
			Summary: "Get a stream", Do: query(h.GetStream)},
		{ID: "getStreamMessageCount", Method: "GET", Path: brokerPath + "/streams/messages/count", Role: auth.Viewer, Status: 200,
			Summary: "Count the messages of a stream", Do: query(h.CountStreamMessages)},
		{ID: "clearStreamRange", Method: "DELETE", Path: brokerPath + "/streams/messages/range", Role: auth.Editor, Status: 204,
			Summary: "Delete the messages of a stream that came in a certain time", Do: command(h.ClearStreamRange)},
		{ID: "stopStreamReplay", Method: "DELETE", Path: brokerPath + "/streams/replay", Role: auth.Viewer, Status: 204,
			Summary: "Stop the replay of a stream", Do: command(h.StopStreamReplay)},
	}
}

// accessExtensions move access control in and out, say what it allows and why,
// and keep clients out.
func accessExtensions(h *handlers.API) []route {
	return []route{
		{ID: "importAccess", Method: "POST", Path: brokerPath + "/access/import", Role: auth.Admin, Status: 200,
			Summary: "Take over a dynamic-security.json", Large: true, Do: query(h.ImportAccess)},
		{ID: "exportAccess", Method: "GET", Path: brokerPath + "/access/export", Role: auth.Admin, Status: 200,
			Summary: "Get the access control as a dynamic-security.json", Large: true, Do: query(h.ExportAccess)},
		{ID: "checkAccess", Method: "GET", Path: brokerPath + "/access-check", Role: auth.Viewer, Status: 200,
			Summary: "Tell whether a client may do something, and why", Do: query(h.CheckAccess)},
		{ID: "listDenials", Method: "GET", Path: brokerPath + "/denials", Role: auth.Viewer, Status: 200,
			Summary: "List what clients were lately not allowed to do", Do: query(h.ListDenials)},
		{ID: "listBans", Method: "GET", Path: brokerPath + "/bans", Role: auth.Viewer, Status: 200,
			Summary: "List the bans", Do: query(h.ListBans)},
		{ID: "addBan", Method: "POST", Path: brokerPath + "/bans", Role: auth.Admin, Status: 204,
			Summary: "Ban a client id, a username or an address", Do: command(h.AddBan)},
		{ID: "deleteBan", Method: "DELETE", Path: brokerPath + "/bans", Role: auth.Admin, Status: 204,
			Summary: "Lift a ban", Do: command(h.DeleteBan)},
	}
}

// serviceRoutes tell about the service itself.
func (rt *router) serviceRoutes() []route {
	return []route{
		{ID: "getHealth", Method: http.MethodGet, Path: "/healthz", Role: auth.Public, Status: 200,
			Summary: "Tell that the process is up", Do: query(rt.getHealth)},
		{ID: "getReadiness", Method: http.MethodGet, Path: "/readyz", Role: auth.Public, Status: 200, Errors: []int{503},
			Summary: "Tell whether the service can do its work", Do: query(rt.getReadiness)},
		{ID: "getOpenAPI", Method: http.MethodGet, Path: openAPIPath, Role: auth.Public, Status: 200,
			Summary: "Get this document", Produces: "application/json", Serve: http.HandlerFunc(rt.serveOpenAPI)},
		{ID: "getDocs", Method: http.MethodGet, Path: docsPath, Role: auth.Public, Status: 200,
			Summary: "Read this document in a browser", Produces: "text/html", Serve: http.HandlerFunc(serveDocs)},
		{ID: "getDocsAsset", Method: http.MethodGet, Path: docsPath + "/{file}", Role: auth.Public, Status: 200,
			Summary: "Get a part of the documentation page", Produces: "*/*", Serve: docsAssets()},
		{ID: "getManual", Method: http.MethodGet, Path: manualPath, Role: auth.Public, Status: 200,
			Summary: "Read or search the manual", Description: "`?q=WORDS` lists the sections that hold all of these words.", Produces: "text/html", Serve: rt.manual.Index(manualPath)},
		{ID: "getManualPage", Method: http.MethodGet, Path: manualPath + "/{page}", Role: auth.Public, Status: 200, Errors: []int{404},
			Summary: "Read a page of the manual", Produces: "*/*", Serve: http.HandlerFunc(rt.serveManualPage)},
		{ID: "getMetrics", Method: http.MethodGet, Path: "/metrics", Role: auth.Root, Status: 200, Scrape: true,
			Summary: "Get the metrics in Prometheus' text format", Produces: "text/plain", Serve: rt.metrics.handler()},
	}
}
