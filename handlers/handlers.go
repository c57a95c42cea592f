// Package handlers has one function per operation of the API: it takes a bound and
// validated request, makes one call to the database or a broker and converts the
// result.
//
// It must not import net/http, a router, SQL or MQTT libraries: package router
// implements the transport, db the appliance's state, broker the brokers.
//
// # What package router reads from the request and result types
//
// A request's fields are bound by their tags: path, query, meta ("address": the
// caller's IP address, "caller": the same for limits, "user_agent") and the field Body.
// The tags minlen, nul, min, max, enum, format, required, nullable, alone and default are
// enforced and documented; doc is a sentence for the document. A request with Resolve
// looks up what its path names before query and body are checked; one with Locate does so
// if these are invalid; one with Validate adds what tags cannot state. A result may be a
// [List], a [Raw] document, a [File], or carry a session cookie; a type with OneOf is
// documented as a choice.
package handlers

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"signalbox/broker"
	"signalbox/broker/monitor"
	"signalbox/db"
	"signalbox/handlers/audit"
	"signalbox/handlers/audit/sinks"
	"signalbox/handlers/auth"
	"signalbox/handlers/jobs"
	"signalbox/handlers/vault"
)

// API has the dependencies of the operations. All exported fields but Backups and Nodes are required.
type API struct {
	*Connections
	Clusters broker.Clusters
	Auth     *auth.Auth
	Audit    *audit.Log
	// AuditSinks are the destinations to which the audit log is copied.
	AuditSinks *sinks.Sinks
	Jobs       *jobs.Runner
	// Backups is nil if no directory for them is configured.
	Backups Backups
	// SearchTime bounds the time of a search.
	SearchTime time.Duration
	History    *monitor.History
	Events     *monitor.Events
	LogLevel   *LogLevel
	// DiskFree returns how many bytes are free on the disk of the data directory, below 0 if that is
	// not known.
	DiskFree func() int64
	System   System
	// Nodes are the other nodes of a cluster that shares the data of the platform; nil if there can be none.
	Nodes Nodes

	searches searches
}

// Connections are the stored broker connections, and the brokers that they lead to. All
// exported fields but BrokerData are required.
type Connections struct {
	DB      *db.DB
	Brokers *broker.Pool
	// BrokerData is what this service stores for brokers itself.
	BrokerData []BrokerData
	Vault      vault.Sealer // of the secrets in the database
	// CertDir is the directory of the *_file members of broker connections.
	CertDir string
	Now     func() time.Time
	Log     *slog.Logger

	inProcess    broker.Broker // nil if it is disabled
	inProcessURL string
	ownRecord    atomic.Pointer[embeddedRecord] // of inProcess; nil while there is none
	followed     followed                       // of FollowData
}

// BrokerData is what this service stores for brokers itself, such as streams.
type BrokerData struct {
	Name string
	// Forget deletes everything that belongs to a broker, once the broker is closed.
	Forget func(ctx context.Context, brokerID string) error
}

// newID returns an identifier: a UUID of version 7, which is ordered by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// Opt is a member of a JSON object that may be absent, null or a value.
type Opt[T any] struct {
	Value T
	Set   bool // present, possibly null
	Null  bool
}

// UnmarshalJSON records that the member is present.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	if string(b) == "null" {
		o.Null = true
		return nil
	}
	return json.Unmarshal(b, &o.Value)
}

// Ptr returns the value, or nil if the member is absent or null.
func (o Opt[T]) Ptr() *T {
	if !o.Set || o.Null {
		return nil
	}
	return &o.Value
}

// merge sets *dst: an absent member leaves it, null clears it.
func (o Opt[T]) merge(dst *T) {
	var zero T
	o.mergeOr(dst, zero)
}

// mergeOr is merge for a member that null sets to its default.
func (o Opt[T]) mergeOr(dst *T, fallback T) {
	switch {
	case !o.Set:
	case o.Null:
		*dst = fallback
	default:
		*dst = o.Value
	}
}

// orDefault returns the value, nil if the member is absent, and the default if it is null.
func (o Opt[T]) orDefault(standard T) *T {
	if o.Null {
		return &standard
	}
	return o.Ptr()
}

// List is a page of records, written as a bare JSON array while it is read; the header
// X-Total-Count carries the number of entries before offset and count apply. With
// NamesOnly each entry is just its name.
type List[T any] struct {
	page  broker.Page[T]
	names func(T) string
}

// TotalCount returns the number of entries before offset and count apply.
func (l List[T]) TotalCount() int { return l.page.Total }

// Each yields the entries, or their names.
func (l List[T]) Each(yield func(any) error) error {
	if l.page.Items == nil {
		return nil
	}
	for item, err := range l.page.Items {
		if err != nil {
			return err
		}
		var entry any = item
		if l.names != nil {
			entry = l.names(item)
		}
		if err := yield(entry); err != nil {
			return err
		}
	}
	return nil
}

// Item returns an entry, for its schema.
func (List[T]) Item() any { var zero T; return zero }

// HasNames reports, for the schema, whether entries may be names.
func (List[T]) HasNames() bool {
	switch any(*new(T)).(type) {
	case broker.Client, broker.Group, broker.Role, broker.Stream:
		return true
	}
	return false
}

// listOf returns a List of a slice.
func listOf[T any](items []T) List[T] {
	return List[T]{page: broker.Page[T]{Total: len(items), Items: func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}}}
}

// Raw is a document that is not encoded from a Go value.
type Raw struct {
	ContentType string
	Body        []byte
}

// ProjectPath names a project. Its existence and the caller's role in it were checked
// before.
type ProjectPath struct {
	ProjectID string `path:"projectId" doc:"Id of the project."`
}

// BrokerPath names a broker of a project.
type BrokerPath struct {
	ProjectID string `path:"projectId" doc:"Id of the project."`
	BrokerID  string `path:"brokerId" doc:"Id of the broker connection."`

	row db.Broker
}

// Resolve looks up the broker's record.
func (p *BrokerPath) Resolve(ctx context.Context, a *API) error {
	row, err := a.DB.GetBroker(ctx, p.ProjectID, p.BrokerID)
	if err != nil {
		return notFound(err, "the project has no broker with this id")
	}
	p.row = row
	return nil
}

// live returns the broker in the path. It may not be connected yet.
func (a *API) live(p *BrokerPath) (broker.Broker, error) {
	return a.connect(p.row)
}

// Paging selects a page of a list.
type Paging struct {
	Offset int `query:"offset" default:"0" min:"0" doc:"Number of entries to skip."`
	Count  int `query:"count" default:"-1" min:"-1" doc:"Number of entries to return; -1 returns all."`
}
