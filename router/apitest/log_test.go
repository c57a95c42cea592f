package apitest_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// TestLogLevel changes the level of the log of a service, for root only. The change is in the audit log.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	const path = "/api/log/level"
	c := appliance.LogConfig{MaxFiles: 1, Level: "warn", Format: "text"}
	log, err := appliance.OpenLog(c, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	api := apitest.NewLogged(t, log.Logger, func(c *appliance.Config) { c.Log.Leveler = log.Level })
	want := func(level string, logged slog.Level, changed bool) {
		t.Helper()
		var got handlers.LogLevelRecord
		api.Root.Get(path).Want(200).Decode(&got)
		if got.Level != level || got.Configured != "warn" || (got.Until != nil) != changed {
			t.Errorf("got %+v, want %s", got, level)
		}
		if got.Until != nil && (time.Until(*got.Until) > 10*time.Minute || time.Until(*got.Until) < 0) {
			t.Errorf("until %v", got.Until)
		}
		on := context.Background()
		if !log.Logger.Enabled(on, logged) || log.Logger.Enabled(on, logged-1) {
			t.Errorf("%s: another level is logged", level)
		}
	}
	want("warn", slog.LevelWarn, false)
	for level, logged := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "error": slog.LevelError} {
		api.Root.Put(path, object{"level": level}).Want(204)
		want(level, logged, true)
	}
	api.Root.Put(path, object{"level": "warn"}).Want(204)
	want("warn", slog.LevelWarn, false)

	for _, body := range []object{{"level": "loud"}, {"level": "DEBUG"}, {}} {
		api.Root.Put(path, body).WantError(400, "INVALID_REQUEST")
	}
	eve := addTestUser(t, api, "eve")
	eve.Get(path).WantError(403, "FORBIDDEN")
	eve.Put(path, object{"level": "debug"}).WantError(403, "FORBIDDEN")
	want("warn", slog.LevelWarn, false)
	var events struct{ Events []struct{ Operation string } }
	api.Root.Get("/api/audit?operation=setLogLevel&outcome=done").Want(200).Decode(&events)
	if len(events.Events) != 4 {
		t.Errorf("the audit log has %+v, want 4 changes", events)
	}
}
