package handlers

import (
	"context"
	"encoding/json"
	"time"

	"signalbox/db"
)

// EncodeAuditEvent returns an event as a JSON object in one line, as listAudit returns it.
func EncodeAuditEvent(e db.AuditEvent) ([]byte, error) { return json.Marshal(auditRecord(e)) }

// ListAuditSinksRequest is empty.
type ListAuditSinksRequest struct{}

// AuditSinkRecord is a destination to which the audit log is copied.
type AuditSinkRecord struct {
	Name        string    `json:"name" enum:"file|syslog|webhook|mqtt" doc:"Kind of the destination." example:"syslog"`
	Destination string    `json:"destination" doc:"Path of the file, scheme and host of a URL, or topic." example:"tls://syslog.example.org:6514"`
	Seq         int64     `json:"seq" doc:"Number of the last row that the destination has; 0 for none." example:"4711"`
	Pending     int64     `json:"pending" doc:"Number of rows that it does not have yet." example:"0"`
	Error       string    `json:"error,omitempty" doc:"Why the last attempt failed; absent if it succeeded." example:"-"`
	Since       time.Time `json:"since,omitzero" doc:"Time since which all attempts have failed, RFC 3339; absent if the last one succeeded." example:"-"`
}

// ListAuditSinks returns the destinations of the audit log.
func (a *API) ListAuditSinks(ctx context.Context, _ *ListAuditSinksRequest) ([]AuditSinkRecord, error) {
	all, err := a.AuditSinks.Status(ctx)
	list := make([]AuditSinkRecord, 0, len(all))
	for _, s := range all {
		r := AuditSinkRecord{Name: s.Name, Destination: s.Destination, Seq: s.Seq, Pending: s.Pending, Since: s.Since.UTC()}
		if s.Err != nil {
			r.Error = s.Err.Error()
		}
		list = append(list, r)
	}
	return list, err
}
