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

// The parts of an OpenAPI 3.1 document that ours has. Maps are written in order
// of their keys, so the document is the same every time.
type (
	document struct {
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
		Name string `json:"name"`
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

// errorMeanings says what a status of failure means to a caller.
var errorMeanings = map[int]string{
	http.StatusBadRequest:          "The request is not valid, or what it asks for contradicts what is there.",
	http.StatusUnauthorized:        "The caller is not known: no credential, or one that is not accepted.",
	http.StatusForbidden:           "The caller's role does not allow this.",
	http.StatusNotFound:            "What the request names is not there.",
	http.StatusMethodNotAllowed:    "The broker does not offer this feature.",
	http.StatusTooManyRequests:     "Too many failed attempts; the header Retry-After says for how many seconds to wait.",
	http.StatusInternalServerError: "The service or the broker failed.",
	http.StatusServiceUnavailable:  "The broker, or the service, cannot be reached.",
}

const description = "Manages the access control of MQTT brokers. Every failure is answered with the error object; its member " +
	"`code` is stable. The minimum role of an operation is `x-minimum-role`; operations that the specification does not list " +
	"carry `x-extension`. HEAD is answered as GET, OPTIONS with the header Allow."

// serveOpenAPI serves the document, which is written once.
func (rt *router) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeBody(w, http.StatusOK, "application/json", rt.document)
}

// writeOpenAPI writes the document of the table.
func (rt *router) writeOpenAPI(types shapes) ([]byte, error) {
	d := &document{
		OpenAPI: "3.1.0",
		Info:    docInfo{Title: "signalbox", Version: rt.version, Description: description},
		Servers: []docServer{{URL: "/"}},
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
			return nil, fmt.Errorf("document %s: %w", row.ID, err)
		}
	}
	if err := d.addErrors(s); err != nil {
		return nil, err
	}
	d.Components.Schemas = s.named
	return json.MarshalIndent(d, "", "  ")
}

func (d *document) add(s *schemas, row *route) error {
	op := &operation{
		ID: row.ID, Tags: []string{row.Tag}, Summary: row.Summary, Description: row.Description, Extension: row.Extension,
		MinimumRole: row.Role.String(), Security: security(row), Parameters: parameters(s, row),
	}
	if row.plan != nil && row.plan.body != nil {
		op.Body = &docBody{Required: !row.plan.body.rules.optional, Content: withExample(jsonMedia(s.ofParameter(row.plan.body)), row.BodyExample)}
	}
	success, err := s.success(row)
	if err != nil {
		return err
	}
	success.Content = withExample(success.Content, row.Example)
	op.Responses = map[string]*response{strconv.Itoa(row.Status): success}
	for _, status := range row.promised {
		op.Responses[strconv.Itoa(status)] = &response{Ref: "#/components/responses/" + responseName(status)}
	}
	if d.Paths[row.Path] == nil {
		d.Paths[row.Path] = map[string]*operation{}
	}
	d.Paths[row.Path][strings.ToLower(row.Method)] = op
	if !slices.Contains(d.Tags, docTag{row.Tag}) {
		d.Tags = append(d.Tags, docTag{row.Tag})
	}
	return nil
}

// security says which credentials open a row; none where anybody may call.
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
				list = append(list, docParameter{Name: name, In: "path", Required: true, Schema: &schema{Type: "string"}})
			}
		}
		return list
	}
	for i := range row.plan.path {
		p := &row.plan.path[i]
		list = append(list, docParameter{Name: p.name, In: "path", Required: true, Description: p.rules.doc, Schema: s.ofParameter(p)})
	}
	for i := range row.plan.query {
		p := &row.plan.query[i]
		list = append(list, docParameter{Name: p.name, In: "query", Required: p.rules.required, Description: p.rules.doc, Schema: s.ofParameter(p)})
	}
	return list
}

func jsonMedia(s *schema) map[string]docMedia {
	return map[string]docMedia{"application/json": {Schema: s}}
}

// withExample gives the media with an example; "" is none.
func withExample(content map[string]docMedia, example string) map[string]docMedia {
	if example == "" {
		return content
	}
	for name, m := range content {
		m.Example = json.RawMessage(example)
		content[name] = m
	}
	return content
}

// addErrors adds one response per status of failure; rows refer to it.
func (d *document) addErrors(s *schemas) error {
	sh, err := s.types.of(typeOf[handlers.ErrorObject]())
	if err != nil {
		return err
	}
	object := s.of(sh, forAnswer)
	d.Components.Responses = map[string]*response{}
	for status, meaning := range errorMeanings {
		d.Components.Responses[responseName(status)] = &response{Description: meaning, Content: jsonMedia(object)}
	}
	return nil
}

// responseName names the shared response of a status, "NotFound".
func responseName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}
