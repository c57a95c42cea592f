package router

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"signalbox/handlers"
)

// auditExportPage is how many events of an export are read and written at a time.
const auditExportPage = 1000

// serveAuditExport writes the events that a query selects, the newest first, as JSON lines or
// with format=csv as CSV. A failure aborts the connection: a part must not look like the whole.
func (rt *router) serveAuditExport(w http.ResponseWriter, r *http.Request) {
	row := rt.rowOf("listAudit")
	v := reflect.New(row.plan.typ)
	var bad problems
	row.plan.bindQuery(&bad, v.Elem(), r.URL.RawQuery)
	format := r.URL.Query().Get("format")
	if format != "" && format != "jsonl" && format != "csv" {
		bad.add(&place{parent: &place{name: "query"}, name: "format"}, "must be jsonl or csv")
	}
	if len(bad.list) > 0 {
		rt.refuse(w, r, rt.rowOf(infoOf(r.Context()).op), handlers.Invalid(bad.list...))
		return
	}
	query := v.Interface().(*handlers.ListAuditRequest)
	query.Count = auditExportPage
	out := newAuditWriter(w, format)
	for deadline := http.NewResponseController(w); ; {
		deadline.SetWriteDeadline(time.Now().Add(rt.cfg.WriteTimeout)) //nolint:errcheck // a connection without deadlines needs none
		page, err := rt.api.ListAudit(r.Context(), query)
		if err == nil {
			err = out.write(page.Events)
		}
		if err != nil {
			rt.log.WarnContext(r.Context(), "an export of the audit log was aborted", "request_id", RequestID(r.Context()), "error", err)
			panic(http.ErrAbortHandler)
		}
		if query.Before = page.Next; query.Before == 0 {
			return
		}
	}
}

// auditWriter writes events in one of the formats of an export.
type auditWriter struct {
	lines *json.Encoder
	table *csv.Writer // nil for JSON lines
}

// auditColumns are the columns of an export as CSV.
var auditColumns = []string{"seq", "time", "actor_type", "actor_id", "actor_name", "address", "user_agent", "request_id", "operation",
	"project_id", "broker_id", "object", "outcome", "status", "code", "change", "duration_ms", "count", "hash", "object_name"}

func newAuditWriter(w http.ResponseWriter, format string) *auditWriter {
	if format == "csv" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
		table := csv.NewWriter(w)
		table.Write(auditColumns) //nolint:errcheck // reported by Flush
		return &auditWriter{table: table}
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	return &auditWriter{lines: json.NewEncoder(io.Writer(w))}
}

func (a *auditWriter) write(events []handlers.AuditRecord) error {
	for i := range events {
		e := &events[i]
		if a.table == nil {
			if err := a.lines.Encode(e); err != nil {
				return err
			}
			continue
		}
		a.table.Write([]string{strconv.FormatInt(e.Seq, 10), e.Time.Format(time.RFC3339Nano), e.ActorType, e.ActorID, cellText(e.ActorName), //nolint:errcheck // reported by Flush
			e.Address, cellText(e.UserAgent), cellText(e.RequestID), e.Operation, e.ProjectID, e.BrokerID, cellText(e.Object), e.Outcome,
			strconv.Itoa(e.Status), e.Code, string(e.Change), strconv.FormatFloat(e.Duration, 'f', -1, 64), strconv.Itoa(e.Count), e.Hash, cellText(e.Name)})
	}
	if a.table == nil {
		return nil
	}
	a.table.Flush()
	return a.table.Error()
}

// cellText returns a caller's text for a cell of a spreadsheet, which must not take it for a
// formula.
func cellText(s string) string {
	if s != "" && (s[0] == '=' || s[0] == '+' || s[0] == '-' || s[0] == '@' || s[0] == '\t' || s[0] == '\r') {
		return "'" + s
	}
	return s
}
