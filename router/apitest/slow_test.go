package apitest_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// linesWith returns the lines of a log that contain all parts.
func linesWith(log *logBuffer, parts ...string) (found []string) {
	for line := range strings.Lines(log.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			found = append(found, line)
		}
	}
	return found
}

// slowerThan sets log.slow.
func slowerThan(d time.Duration) apitest.Option {
	return func(c *appliance.Config) { c.Log.Slow = d }
}

// TestSlowLog has a limit that everything exceeds.
func TestSlowLog(t *testing.T) {
	t.Parallel()
	log := new(logBuffer)
	api := apitest.NewLogged(t, slog.New(slog.NewTextHandler(log, nil)), withAdminPassword, slowerThan(1))
	id := addMosquitto(t, api)
	api.Root.Post(api.BrokerAt(id, "/clients"), object{"username": "pump", "password": "quiet-secret"}).Want(204)
	d := join(t, api, 5, "d", asAdmin)
	d.Publish("$CONTROL/dynamic-security/v1", `{"commands":[{"command":"createClient","username":"valve","password":"quiet-secret"}]}`, 1)
	for _, parts := range [][]string{
		{"level=WARN msg=request op=createClient", "duration=", "object=pump", "slow=true"},
		{`level=WARN msg="a command to a broker was slow"`, "broker=" + id, "op=createClient object=pump duration=", "request_id="},
		{`level=WARN msg="a control request was slow"`, "commands.createClient=valve duration=", "clientid=d"},
	} {
		waitFor(t, "a line with "+strings.Join(parts, ", "), func() bool { return len(linesWith(log, parts...)) == 1 })
	}
	if lines := linesWith(log, "quiet-secret"); len(lines) > 0 {
		t.Errorf("a password stands in the log: %s", lines)
	}
}

// TestLogOfChanges has the name of the object in the line of a change only, unless it is slow.
func TestLogOfChanges(t *testing.T) {
	t.Parallel()
	log := new(logBuffer)
	api := apitest.NewLogged(t, slog.New(slog.NewTextHandler(log, nil)), slowerThan(0))
	api.Root.Post(api.At("/clients"), object{"username": "pump", "password": "quiet-secret"}).Want(204)
	api.Root.Get(api.At("/clients?username=pump")).Want(200)
	waitFor(t, "the line of the change", func() bool { return len(linesWith(log, "msg=request op=createClient", "object=pump")) == 1 })
	if lines := linesWith(log, "pump"); len(lines) != 1 {
		t.Errorf("got %s", lines)
	}
	if lines := linesWith(log, "slow"); len(lines) > 0 {
		t.Errorf("without a limit: %s", lines)
	}
}
