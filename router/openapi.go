package router

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// The parts of OpenAPI 3.1 that our document uses. Maps are written in the order of
// their keys, so that the document is reproducible.
type (
	openAPI struct {
		OpenAPI    string                           `json:"openapi"`
		Info       docInfo                          `json:"info"`
		Servers    []docServer                      `json:"servers"`
		Tags       []docTag                         `json:"tags"`
		Paths      map[string]map[string]*operation `json:"paths"`
		Components components                       `json:"components"`
	}
	docInfo struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Description string `json:"description"`
		License     struct {
			Name       string `json:"name"`
			Identifier string `json:"identifier"`
		} `json:"license"`
	}
	docServer struct {
		URL string `json:"url"`
	}
	docTag struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	components struct {
		Schemas         map[string]*schema   `json:"schemas"`
		Responses       map[string]*response `json:"responses"`
		SecuritySchemes map[string]any       `json:"securitySchemes"`
	}
	operation struct {
		ID          string               `json:"operationId"`
		Tags        []string             `json:"tags"`
		Summary     string               `json:"summary"`
		Description string               `json:"description,omitempty"`
		Extension   bool                 `json:"x-extension,omitempty"`
		MinimumRole string               `json:"x-minimum-role"`
		Security    []map[string][]any   `json:"security"`
		Parameters  []docParameter       `json:"parameters,omitempty"`
		Body        *docBody             `json:"requestBody,omitempty"`
		Responses   map[string]*response `json:"responses"`
	}
	docParameter struct {
		Name        string  `json:"name"`
		In          string  `json:"in"`
		Required    bool    `json:"required,omitempty"`
		Description string  `json:"description,omitempty"`
		Schema      *schema `json:"schema"`
	}
	docBody struct {
		Required bool                `json:"required"`
		Content  map[string]docMedia `json:"content"`
	}
	docMedia struct {
		Schema  *schema         `json:"schema"`
		Example json.RawMessage `json:"example,omitempty"`
	}
	response struct {
		Ref         string               `json:"$ref,omitempty"`
		Description string               `json:"description,omitempty"`
		Headers     map[string]docHeader `json:"headers,omitempty"`
		Content     map[string]docMedia  `json:"content,omitempty"`
	}
	docHeader struct {
		Description string  `json:"description"`
		Schema      *schema `json:"schema"`
	}
)

// failures are the error statuses: what each means to a caller, and an example.
var failures = map[int]struct{ meaning, code, message string }{
	http.StatusBadRequest: {"The request is invalid, or it conflicts with the current state. `info.errors` names every invalid field.",
		handlers.CodeInvalidRequest, "body.username: is required"},
	http.StatusUnauthorized: {"The caller is unknown: the request has no credential, or one that is not accepted.",
		handlers.CodeUnauthorized, "log in, or send a valid token"},
	http.StatusForbidden: {"The caller's role does not allow the operation.",
		handlers.CodeForbidden, "your role in this project does not allow this"},
	http.StatusNotFound: {"The object that the request names does not exist.",
		handlers.CodeNotFound, "the project has no broker with this id"},
	http.StatusMethodNotAllowed: {"The broker does not have this feature; `info.feature` names it. The message says what to change at the broker.",
		handlers.CodeNotSupported, "the broker has no dynamic security: load the plugin"},
	http.StatusTooManyRequests: {"Too many failed attempts, or too many open event streams of the caller. The header Retry-After holds the number of seconds to wait.",
		handlers.CodeTooManyAttempts, "too many failed attempts; try again later"},
	http.StatusInternalServerError: {"The service or the broker failed. `info.requestId` finds the cause in the log.",
		handlers.CodeInternalError, "internal error"},
	http.StatusServiceUnavailable: {"The broker, or the service itself, is unavailable, or the nodes of a cluster that share the data have no majority to store a change.",
		handlers.CodeBrokerUnavailable, "broker.example:1883 refuses connections"},
}

const description = "Manages MQTT brokers: projects, broker connections, access control, messages, streams, bridges and clusters.\n\n" +
	"- **Credentials.** `Authorization: Bearer TOKEN`, with the token of a session or of a project. `x-minimum-role` is the minimum role " +
	"of an operation: public (no credential), signed-in, viewer, editor, admin or root; a higher role includes the lower ones.\n" +
	"- **Errors.** Every failure has the error object as its body; its member `code` is stable. The checks are made in the order 401, 403, " +
	"404 for what the path names, 400 for query and body.\n" +
	"- **Bodies.** JSON, at most 1 MiB unless an operation states more. Unknown members are ignored, so that a record that was read can be sent " +
	"back, unless a schema allows no others.\n" +
	"- **Lists.** A JSON array; the header X-Total-Count holds the number of entries before `offset` and `count`.\n" +
	"- **Times.** RFC 3339 in UTC, or epoch milliseconds where the description says so.\n" +
	"- **Clusters that share the data of the platform.** A response has everything that was acknowledged at any node before the request. Where " +
	"the node cannot know that, as without a majority, the response has the header `Signalbox-Stale: true`, and changes may be refused with 503.\n" +
	"- **Methods.** HEAD is answered as GET, OPTIONS with the header Allow. Operations beyond the specification carry `x-extension`."

// serveOpenAPI serves the document.
func (rt *router) serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	document, err := rt.document()
	if err != nil {
		rt.refuse(w, r, rt.rowOf(infoOf(r.Context()).op), err)
		return
	}
	writeBody(w, http.StatusOK, "application/json", document)
}

// writeOpenAPI returns the document of the table. It also returns the gaps: what has no
// description or no example yet.
func (rt *router) writeOpenAPI(types shapes) (document []byte, gaps []string, err error) {
	d := &openAPI{
		OpenAPI: "3.1.0",
		Info:    docInfo{Title: "signalbox", Version: rt.version, Description: description},
		Servers: []docServer{{URL: "/"}},
		Tags:    tags,
		Paths:   map[string]map[string]*operation{},
	}
	d.Info.License.Name, d.Info.License.Identifier = "Apache License 2.0", "Apache-2.0"
	d.Components.SecuritySchemes = map[string]any{
		"bearer": map[string]string{"type": "http", "scheme": "bearer", "description": "A session token or a project token."},
		"cookie": map[string]string{"type": "apiKey", "in": "cookie", "name": cookieName},
	}
	s := &schemas{types: types, named: map[string]*schema{}, owner: map[string]usage{}}
	for _, row := range rt.rows {
		if err := d.add(s, row); err != nil {
			return nil, nil, fmt.Errorf("document %s: %w", row.ID, err)
		}
	}
	if err := d.addErrors(s); err != nil {
		return nil, nil, err
	}
	d.Components.Schemas = s.named
	document, err = json.MarshalIndent(d, "", "  ")
	return document, s.gaps, err
}

func (d *openAPI) add(s *schemas, row *route) error {
	s.needs(row.Description != "", row.ID+" has no description")
	s.needs(slices.ContainsFunc(tags, func(t docTag) bool { return t.Name == row.Tag }), row.ID+" has an undescribed tag")
	op := &operation{
		ID: row.ID, Tags: []string{row.Tag}, Summary: row.Summary, Description: row.Description, Extension: row.Extension,
		MinimumRole: row.Role.String(), Security: security(row), Parameters: parameters(s, row),
	}
	if row.plan != nil && row.plan.body != nil {
		op.Body = &docBody{Required: !row.plan.body.rules.optional, Content: map[string]docMedia{"application/json": {
			Schema: s.ofParameter(row.plan.body), Example: s.orGap(row.ID + " body")(row.bodyExample())}}}
	}
	success, err := s.success(row)
	if err != nil {
		return err
	}
	for name, m := range success.Content {
		m.Example = s.orGap(row.ID + " response")(row.responseExample(s.types))
		if name == "text/csv" {
			m.Example = s.orGap(row.ID + " response as CSV")(row.exampleCSV(m.Example))
		}
		success.Content[name] = m
	}
	op.Responses = map[string]*response{strconv.Itoa(row.Status): success}
	for _, status := range row.promised {
		op.Responses[strconv.Itoa(status)] = &response{Ref: "#/components/responses/" + responseName(status)}
	}
	if d.Paths[row.Path] == nil {
		d.Paths[row.Path] = map[string]*operation{}
	}
	d.Paths[row.Path][strings.ToLower(row.Method)] = op
	return nil
}

// needs records a gap unless something is present.
func (s *schemas) needs(present bool, gap string) {
	if !present {
		s.gaps = append(s.gaps, gap)
	}
}

// orGap returns a function that returns an example, or records that there is none.
func (s *schemas) orGap(where string) func(json.RawMessage, error) json.RawMessage {
	return func(example json.RawMessage, err error) json.RawMessage {
		if err != nil {
			s.gaps = append(s.gaps, where+": "+err.Error())
			return nil
		}
		return example
	}
}

// security returns the credentials that a row accepts; none if it is public.
func security(row *route) []map[string][]any {
	if row.Role == auth.Public {
		return []map[string][]any{}
	}
	return []map[string][]any{{"bearer": {}}, {"cookie": {}}}
}

func parameters(s *schemas, row *route) []docParameter {
	var list []docParameter
	if row.plan == nil {
		for _, segment := range row.segments {
			if name, ok := strings.CutPrefix(segment, ":"); ok {
				list = append(list, docParameter{Name: name, In: "path", Required: true, Description: "Name of the " + name + ".",
					Schema: &schema{Type: "string"}})
			}
		}
		return list
	}
	for _, p := range slices.Concat(row.plan.path, row.plan.query) {
		s.needs(p.rules.doc != "", row.ID+" parameter "+p.name+" has no description")
	}
	for i := range row.plan.path {
		p := &row.plan.path[i]
		list = append(list, docParameter{Name: p.name, In: "path", Required: true, Description: p.rules.doc, Schema: s.ofParameter(p)})
	}
	for i := range row.plan.query {
		p := &row.plan.query[i]
		list = append(list, docParameter{Name: p.name, In: "query", Required: p.rules.required, Description: p.rules.doc, Schema: s.ofParameter(p)})
	}
	return documentFormat(row, list)
}

func jsonMedia(s *schema) map[string]docMedia {
	return map[string]docMedia{"application/json": {Schema: s}}
}

// addErrors adds one response per error status; rows refer to it.
func (d *openAPI) addErrors(s *schemas) error {
	sh, err := s.types.of(typeOf[handlers.ErrorObject]())
	if err != nil {
		return err
	}
	object := s.of(sh, forAnswer)
	d.Components.Responses = map[string]*response{}
	for status, f := range failures {
		example, err := json.Marshal(handlers.ErrorObject{Message: f.message, Code: f.code, Status: status})
		if err != nil {
			return err
		}
		d.Components.Responses[responseName(status)] = &response{Description: f.meaning,
			Content: map[string]docMedia{"application/json": {Schema: object, Example: example}}}
	}
	return nil
}

// responseName returns the name of the shared response of a status, "NotFound".
func responseName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}
