package handlers

import (
	"context"
	"log/slog"
	"time"
)

// System is the process of the service and its machine. Errors are those of this package.
type System interface {
	Describe(ctx context.Context) (SystemRecord, error)
	// Log returns the last lines that have at least a level, the oldest first.
	Log(count int, least slog.Level) []LogLine
	SupportBundle(ctx context.Context, o SupportBundleOptions) (File, error)
}

// SystemRecord is the process of the service and its machine.
type SystemRecord struct {
	Version    string           `json:"version" doc:"Version of the program that runs." example:"1.0.0 (commit 0123456789ab, 2026-01-31T03:00:00Z)"`
	Platform   string           `json:"platform" doc:"Operating system and architecture." example:"linux/amd64"`
	Processors int              `json:"processors" doc:"Number of processors that the program uses." example:"4"`
	PID        int              `json:"pid" doc:"Number of the process." example:"812"`
	Started    time.Time        `json:"started_at" doc:"Time at which the service began to start, RFC 3339." example:"2026-01-31T03:00:00Z"`
	Addresses  []string         `json:"addresses" doc:"Addresses that it listens on: that of the API, then those of the embedded broker." example:"[\"http://127.0.0.1:8080\",\"mqtt://127.0.0.1:1883\"]"`
	DataDir    string           `json:"data_dir" doc:"Path of its data directory." example:"/var/lib/signalbox"`
	Install    string           `json:"install" enum:"package|container|program" doc:"How the program was installed, which determines how it is updated: from a package of the system, as the first process of a container, or as one file." example:"package"`
	Program    string           `json:"program" doc:"Path of the program; empty if that is not known." example:"/usr/bin/signalbox"`
	Unit       string           `json:"unit" doc:"Unit of systemd that the service is; empty if it is none." example:"signalbox.service"`
	Parts      []SystemPart     `json:"parts" doc:"Its parts, and whether they are ready. The service is ready if all of them are."`
	Databases  []SystemDatabase `json:"databases" doc:"The files of its databases."`
	Upgrade    *SystemUpgrade   `json:"last_upgrade" doc:"The last upgrade; null if none is recorded."`
}

// SystemPart is a part of the service.
type SystemPart struct {
	Name    string `json:"name" enum:"database|broker|streams|bridges|files" doc:"Part of the service; files are those of the data directory." example:"broker"`
	Ready   bool   `json:"ready" doc:"Whether it is ready." example:"true"`
	Problem string `json:"problem,omitempty" doc:"Why it is not; absent if it is." example:"-"`
}

// SystemDatabase is a database of the service.
type SystemDatabase struct {
	Name   string `json:"name" doc:"Path of its file in the data directory." example:"signalbox.db"`
	Size   int64  `json:"size" doc:"Size of the file in bytes." example:"1843200"`
	Log    int64  `json:"log_size" doc:"Size of its write-ahead log in bytes." example:"4120032"`
	Schema int64  `json:"schema" doc:"Version of its schema; 0 if it cannot be read." example:"12"`
}

// SystemUpgrade is an upgrade of the program.
type SystemUpgrade struct {
	State string    `json:"state" enum:"replacing|installed|rolling back|rolled back" doc:"installed: the program is the new one; rolled back: program and data are the previous ones; replacing, rolling back: it was interrupted, repeat the command." example:"installed"`
	Time  time.Time `json:"time" doc:"Time of the state, RFC 3339." example:"2026-01-31T03:00:00Z"`
	From  string    `json:"from" doc:"Version before." example:"1.0.0"`
	To    string    `json:"to" doc:"Version of the release." example:"1.1.0"`
}

// GetSystemRequest is empty.
type GetSystemRequest struct{}

// GetSystem returns what is known about the process and its machine.
func (a *API) GetSystem(ctx context.Context, _ *GetSystemRequest) (SystemRecord, error) {
	return a.System.Describe(ctx)
}

// LogLine is a line of the log of the service.
type LogLine struct {
	Time       time.Time `json:"time" doc:"Time of the line, RFC 3339." example:"2026-01-31T03:00:00Z"`
	Level      string    `json:"level" doc:"Level: debug, info, warn or error, with an offset if it is between two." example:"warn"`
	Message    string    `json:"message" doc:"What happened." example:"a backup failed"`
	Attributes string    `json:"attributes" doc:"What it was about, as key=value; values with spaces are quoted." example:"error=\"disk full\""`
}

// GetLogRequest asks for the end of the log.
type GetLogRequest struct {
	Count int    `query:"count" default:"100" min:"1" max:"1000" doc:"Maximum number of lines to return."`
	Level string `query:"level" default:"debug" enum:"debug|info|warn|error" doc:"Least level of the lines to return."`
}

// GetLog returns the last lines of the log, the oldest first.
func (a *API) GetLog(_ context.Context, r *GetLogRequest) ([]LogLine, error) {
	var least slog.Level
	_ = least.UnmarshalText([]byte(r.Level)) // one of the enumeration
	return a.System.Log(r.Count, least), nil
}

// SupportBundleOptions are the options of a support bundle.
type SupportBundleOptions struct {
	HideNames bool `query:"hide_names" default:"false" doc:"True replaces the names of clients."`
	Offline   bool `query:"offline" default:"false" doc:"True connects to no other machine; brokers and other nodes are not examined then."`
}

// GetSupportBundleRequest asks for a support bundle.
type GetSupportBundleRequest struct{ SupportBundleOptions }

// GetSupportBundle returns an archive of what helps to find the cause of a problem elsewhere.
func (a *API) GetSupportBundle(ctx context.Context, r *GetSupportBundleRequest) (File, error) {
	return a.System.SupportBundle(ctx, r.SupportBundleOptions)
}
