package router

import (
	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// sessionRoutes start and end sessions.
func sessionRoutes(h *handlers.API) []route {
	return []route{
		{ID: "login", Method: "POST", Path: "/api/auth/login", Role: auth.Public, Status: 200, Errors: []int{401, 403, 429},
			Summary: "Log in", Do: query(h.Login),
			Description: "Returns a session token, and sets it as a cookie for the console. A wrong password, an unknown user " +
				"and an unverified user all get the same 401. After five failed attempts further ones are delayed (429)."},
		{ID: "logout", Method: "POST", Path: "/api/auth/logout", Role: auth.SignedIn, Status: 204,
			Summary: "End the session", UsersOnly: true, Do: query(h.Logout),
			Description: "Ends the caller's session and removes the cookie."},
		{ID: "me", Method: "GET", Path: "/api/auth/me", Role: auth.SignedIn, Status: 200,
			Summary: "Get the caller", Do: query(h.Me),
			Description: "Returns the calling user or token, with its roles."},
		{ID: "updateMe", Method: "PUT", Path: "/api/auth/me", Role: auth.SignedIn, Status: 204,
			Summary: "Change the caller's name", Before: "me", UsersOnly: true, Do: command(h.UpdateMe),
			Description: "Changes the members that are present. The email address is changed by an administrator."},
		{ID: "listSessions", Method: "GET", Path: "/api/auth/sessions", Role: auth.SignedIn, Status: 200,
			Summary: "List the caller's sessions", UsersOnly: true, Do: query(h.ListSessions),
			Description: "Where the caller is logged in, the newest log-in first. A user has at most 100 sessions: another log-in " +
				"ends the oldest one."},
		{ID: "endSession", Method: "DELETE", Path: "/api/auth/sessions/{sessionId}", Role: auth.SignedIn, Status: 204,
			Summary: "End a session of the caller", Before: "listSessions", UsersOnly: true, Do: command(h.EndSession),
			Description: "Its token is no longer accepted, and its streams of events end."},
		{ID: "endOtherSessions", Method: "DELETE", Path: "/api/auth/sessions", Role: auth.SignedIn, Status: 204,
			Summary: "End the caller's other sessions", UsersOnly: true, Do: command(h.EndOtherSessions),
			Description: "All but the one that makes the request. API tokens are not affected."},
		{ID: "changePassword", Method: "PUT", Path: "/api/auth/password", Role: auth.SignedIn, Status: 204, Errors: []int{429},
			Summary: "Change the caller's password", UsersOnly: true, Do: command(h.ChangePassword),
			Description: "Ends the other sessions of the caller."},
		{ID: "getPreferences", Method: "GET", Path: "/api/auth/preferences", Role: auth.SignedIn, Status: 200,
			Summary: "Get the caller's preferences", UsersOnly: true, Do: query(h.GetPreferences),
			Description: "How the user wants the console shown. They belong to the user and end with it."},
		{ID: "setPreferences", Method: "PUT", Path: "/api/auth/preferences", Role: auth.SignedIn, Status: 204,
			Summary: "Change the caller's preferences", Before: "getPreferences", UsersOnly: true, Do: command(h.SetPreferences),
			Description: "Changes the members that are present; null resets a member to its default."},
	}
}
