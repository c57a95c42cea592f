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
	"signalbox/handlers/auth"
)

// auditExtensions read the audit log.
func (rt *router) auditExtensions(h *handlers.API) []route {
	return []route{
		{ID: "listAudit", Method: "GET", Path: "/api/audit", Role: auth.Root, Status: 200,
			Summary: "List the audit log", Do: query(h.ListAudit),
			Description: "Who changed what, who was refused and who logged in, the newest first: one event for each operation that " +
				"changes something, whether it succeeded or not. Equal events that a caller may repeat at will, such as refusals, have " +
				"one row a minute with their number. All parameters must match. A page takes the same time at any depth with one of them; with several, as long as it takes to look through the events of one."},
		{ID: "listProjectAudit", Method: "GET", Path: projectPath + "/audit", Role: auth.Admin, Status: 200,
			Summary: "List the audit log of a project", Do: query(h.ListProjectAudit),
			Description: "The events of the project, its members and tokens, and its brokers, as in listAudit."},
		{ID: "exportAudit", Method: "GET", Path: "/api/audit/export", Role: auth.Root, Status: 200, Errors: []int{400},
			Summary: "Export the audit log", Produces: "*/*", Serve: http.HandlerFunc(rt.serveAuditExport),
			Description: "All events that the parameters of listAudit select, the newest first, one JSON object in a line; with " +
				"`format=csv` as CSV.",
			Example: `{"seq":4711,"operation":"modifyClient","object":"pump-7","outcome":"done"}`},
		{ID: "listAuditSinks", Method: "GET", Path: "/api/audit/sinks", Role: auth.Root, Status: 200,
			Summary: "List the destinations of the audit log", Do: query(h.ListAuditSinks),
			Description: "The file, syslog receiver, webhook and topic of the configuration `audit.sinks`, each with its own position in the " +
				"log. Every row and every checkpoint is sent at least once, also after the destination could not be reached."},
		{ID: "getAuditCheckpoint", Method: "GET", Path: "/api/audit/checkpoint", Role: auth.Root, Status: 200,
			Summary: "Sign the state of the audit log", Do: query(h.GetAuditCheckpoint),
			Description: "Keep the note on another machine: with it, `signalbox audit verify --checkpoint FILE` finds out later whether a " +
				"row up to it was changed, inserted or deleted. The service signs a state every hour, too."},
		{ID: "verifyAudit", Method: "GET", Path: "/api/audit/verify", Role: auth.Root, Status: 200, Large: true,
			Summary: "Verify the audit log", Do: query(h.VerifyAudit),
			Description: "Reads all rows, and compares them with their hashes and with the signed states in the database. Who can write to " +
				"the database can replace these, too: `signalbox audit verify` also takes checkpoints and keys that were kept elsewhere."},
	}
}

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
