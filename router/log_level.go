package router

import (
	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// logExtensions are about the log of the service.
func logExtensions(h *handlers.API) []route {
	return []route{
		{ID: "getLog", Method: "GET", Path: "/api/log", Role: auth.Root, Status: 200,
			Summary: "Get the last lines of the log", Do: query(h.GetLog),
			Description: "The oldest first, of the last 1,000 since the start, or 512 KiB, and of the last 1,000 warnings and errors; of a line at " +
				"most 4 KiB. All are where the configuration (`log`) has the service log to."},
		{ID: "getLogLevel", Method: "GET", Path: "/api/log/level", Role: auth.Root, Status: 200,
			Summary: "Get the level of the log", Do: query(h.GetLogLevel),
			Description: "What is logged now, and until when."},
		{ID: "setLogLevel", Method: "PUT", Path: "/api/log/level", Role: auth.Root, Status: 204,
			Summary: "Change the level of the log for ten minutes", Before: "getLogLevel", Do: command(h.SetLogLevel),
			Description: "After ten minutes, or a restart, the level of the configuration applies again."},
	}
}
