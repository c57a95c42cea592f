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
		tagged("Users", userExtensions(h)),
		tagged("Brokers", brokerExtensions(h)),
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
			Summary: "Create a project", UsersOnly: true, Do: query(h.CreateProject)},
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

// userExtensions manage users.
func userExtensions(h *handlers.API) []route {
	return []route{
		{ID: "updateUser", Method: "PUT", Path: "/api/users/{userId}", Role: auth.Root, Status: 204,
			Summary: "Update a user", Do: command(h.UpdateUser)},
	}
}

// brokerExtensions go beyond what the specification asks of a broker.
func brokerExtensions(h *handlers.API) []route {
	return []route{
		{ID: "testBroker", Method: "POST", Path: projectPath + "/brokers/test", Role: auth.Admin, Status: 200,
			Summary: "Try a broker connection without storing it", Do: query(h.TestBroker)},
		{ID: "importAccess", Method: "POST", Path: brokerPath + "/access/import", Role: auth.Admin, Status: 200,
			Summary: "Take over a dynamic-security.json", Large: true, Do: query(h.ImportAccess)},
		{ID: "exportAccess", Method: "GET", Path: brokerPath + "/access/export", Role: auth.Admin, Status: 200,
			Summary: "Get the access control as a dynamic-security.json", Large: true, Do: query(h.ExportAccess)},
		{ID: "disconnectClient", Method: "DELETE", Path: brokerPath + "/client-inspect/connection", Role: auth.Editor, Status: 204,
			Summary: "Disconnect a client", Do: command(h.DisconnectClient)},
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
		{ID: "getMetrics", Method: http.MethodGet, Path: "/metrics", Role: auth.Root, Status: 200, Scrape: true,
			Summary: "Get the metrics in Prometheus' text format", Produces: "text/plain", Serve: rt.metrics.handler()},
	}
}
