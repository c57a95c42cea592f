package router

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"signalbox/handlers/auth"
)

// route is a row of the table: all that the router knows about an operation. Routing,
// authorisation, binding, the OpenAPI document and the guard tests use it; nothing else
// defines these properties.
type route struct {
	ID      string // name of the operation, as in the log and the OpenAPI document
	Method  string
	Path    string // with parameters as {name}
	Role    auth.Role
	Status  int   // of success
	Errors  []int // error statuses in addition to the computed ones
	Tag     string
	Summary string

	Description string // more than the summary, in Markdown
	BodyExample string // JSON of a request's body
	Example     string // JSON of a response

	Extension  bool // defined by our decisions, not by the specification
	Restricted bool // open to a restricted token although the path names no broker
	UsersOnly  bool // not available to project tokens
	Creators   bool // only for callers who may create projects
	Scrape     bool // open to the configured scrape token too
	Large      bool // bodies of up to largeBody bytes, and more time

	Audit  auditing
	Before string // the operation that returns the object before a change, with a query of {members}

	Do       endpoint
	Serve    http.Handler // instead of Do, for operations that are not JSON, such as assets
	Produces string       // media type of Serve

	segments  []string
	plan      *plan
	promised  []int
	columns   []csvColumn // of a list as CSV, nil for what is no list
	preferred []*route    // rows that a path may lead to instead, as overlay.pick does
}

// The sizes of request bodies, in bytes.
const (
	usualBody = 1 << 20
	largeBody = 64 << 20
)

// The sets of error statuses of the specification.
var (
	setA = []int{401, 403, 404, 405, 500}
	setB = []int{401, 403, 404, 500}
	setC = []int{401, 403, 500}
)

// prepare completes the row and refuses one that is incomplete or inconsistent.
func (row *route) prepare(s shapes) error {
	if err := row.check(); err != nil {
		return fmt.Errorf("row %q %s %s: %w", row.ID, row.Method, row.Path, err)
	}
	row.segments = segmentsOf(row.Path)
	row.promised = row.promises()
	if row.Serve != nil {
		return nil
	}
	var err error
	if row.plan, err = s.planOf(row.Do.request); err != nil {
		return fmt.Errorf("row %s: %w", row.ID, err)
	}
	if row.columns, err = csvColumns(row, s); err != nil {
		return fmt.Errorf("row %s: %w", row.ID, err)
	}
	return row.checkParameters()
}

func (row *route) check() error {
	switch {
	case row.ID == "":
		return errors.New("has no id")
	case row.Summary == "" || row.Tag == "":
		return errors.New("has no summary or no tag")
	case row.Role == auth.NoRole:
		return errors.New("has no role")
	case row.Method == "" || !strings.HasPrefix(row.Path, "/"):
		return errors.New("has no method or path")
	case (row.Do.call == nil) == (row.Serve == nil), (row.Serve == nil) != (row.Produces == ""):
		return errors.New("needs either Do, or Serve and Produces")
	case row.Status < 200 || row.Status > 299:
		return errors.New("has no success status")
	case row.isWronglyAudited():
		return errors.New("changes nothing to be audited")
	case row.needsProject() && !row.inProject():
		return errors.New("asks for a role in a project, but its path names none")
	}
	return nil
}

// isWronglyAudited reports whether the row is to be audited as what it is not.
func (row *route) isWronglyAudited() bool {
	if row.writes() {
		return row.Audit == auditRead
	}
	return row.Before != "" || row.Audit != auditChanges && row.Audit != auditRead
}

// needsProject reports whether the role exists in a project only. A viewer of the list
// of projects sees the projects that it is a viewer of.
func (row *route) needsProject() bool { return row.Role == auth.Editor || row.Role == auth.Admin }

func (row *route) checkParameters() error {
	var inPath, inType []string
	for _, s := range row.segments {
		if s[0] == ':' || s[0] == '*' {
			inPath = append(inPath, s[1:])
		}
	}
	for _, p := range row.plan.path {
		inType = append(inType, p.name)
	}
	slices.Sort(inPath)
	slices.Sort(inType)
	if !slices.Equal(inPath, inType) {
		return fmt.Errorf("row %s: path has parameters %v, request type %v", row.ID, inPath, inType)
	}
	return nil
}

func (row *route) inProject() bool { return strings.Contains(row.Path, "{projectId}") }
func (row *route) inBroker() bool  { return strings.Contains(row.Path, "{brokerId}") }

// writes reports whether the operation changes state.
func (row *route) writes() bool { return changesState(row.Method) }

func changesState(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

func (row *route) maxBody() int64 {
	if row.Large {
		return largeBody
	}
	return usualBody
}

// promises returns the error statuses of the operation, in order: its own, and those
// that result from routing, authorization and binding.
func (row *route) promises() []int {
	all := append([]int{http.StatusInternalServerError}, row.Errors...)
	if row.Do.call != nil {
		all = append(all, http.StatusBadRequest)
	}
	if row.Role != auth.Public {
		all = append(all, http.StatusUnauthorized, http.StatusForbidden)
	}
	if strings.Contains(row.Path, "{") {
		all = append(all, http.StatusNotFound)
	}
	if row.inBroker() || row.Tag == tagClusters { // which may be unavailable, or lack the feature
		all = append(all, http.StatusServiceUnavailable, http.StatusMethodNotAllowed)
	}
	if row.writes() { // which nodes that share the data refuse without a majority
		all = append(all, http.StatusServiceUnavailable)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// narrow returns the status for a failure: its own if the row promises it, otherwise
// the nearest that every operation may return. The code of the error object is never
// narrowed.
func (row *route) narrow(status int) int {
	switch {
	case slices.Contains(row.promised, status), status == http.StatusServiceUnavailable:
		return status
	case status >= 400 && status < 500:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
