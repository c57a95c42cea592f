package http

import (
	"maps"
	"mime"
	nethttp "net/http"
	"slices"
	"strings"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
)

const (
	messageIDHeader = "X-Signalbox-Message-Id"
	topicHeader     = "X-Signalbox-Topic"
)

// topicMapping is the configuration of a topic mapping. It is immutable once it is compiled.
type topicMapping struct {
	Name        string            `json:"name"`
	Method      string            `json:"method"`
	Target      string            `json:"target"`
	Body        *string           `json:"body"`
	ContentType string            `json:"contentType"`
	Headers     map[string]string `json:"headers"`
	Batch       bool              `json:"batch"`

	target  *mapping.Template
	hasBody bool
	body    mapping.Content
	headers []header
}

// header is a header whose value is made from messages.
type header struct {
	name  string
	value *mapping.Template
}

func (m *topicMapping) compile(at string, record *mapping.Mapping, p *bridges.Problems) *topicMapping {
	if m.Method == "" {
		m.Method = nethttp.MethodPost
	}
	if m.ContentType == "" {
		m.ContentType = "application/json"
	}
	if m.Target != "" && m.Target[0] != '/' && m.Target[0] != '?' {
		p.Add(at+".target", "must begin with / or ?")
	}
	m.target = m.template(at+".target", m.Target, mapping.EscapePath, p)
	m.compileBody(at, record, p)
	m.compileHeaders(at, p)
	if m.target != nil && m.target.Constant() {
		if _, _, err := location("/", m.Target); err != nil {
			p.Add(at+".target", err.Error())
		}
	}
	return m
}

// template parses a template. It adds a problem and returns nil if that fails.
func (m *topicMapping) template(at, text string, e mapping.Escape, p *bridges.Problems) *mapping.Template {
	t, err := mapping.ParseTemplate(text, e)
	if err != nil {
		p.Add(at, err.Error())
		return nil
	}
	return t
}

func (m *topicMapping) compileBody(at string, record *mapping.Mapping, p *bridges.Problems) {
	media, _, err := mime.ParseMediaType(m.ContentType)
	if err != nil || !isHeaderValue(m.ContentType) {
		p.Add(at+".contentType", "is not a content type such as application/json")
	}
	isJSON := media == "application/json" || strings.HasSuffix(media, "+json")
	m.hasBody = m.Body != nil || m.Method != nethttp.MethodGet && m.Method != nethttp.MethodDelete
	escape := mapping.EscapeNone
	if isJSON {
		escape = mapping.EscapeJSON
	}
	switch {
	case !m.hasBody:
	case m.Body != nil:
		m.body.Template = m.template(at+".body", *m.Body, escape, p)
	case record != nil:
		m.body.Record = record
	default:
		m.body.Record = mapping.Default()
	}
	if m.body.Record != nil && !isJSON && err == nil {
		p.Add(at+".contentType", "must be one of JSON where the body is a record: give a body, or leave it out")
	}
	if m.Batch {
		m.checkBatch(at, isJSON, p)
	}
}

// checkBatch checks what the messages of a batch must have in common.
func (m *topicMapping) checkBatch(at string, isJSON bool, p *bridges.Problems) {
	if !isJSON || !m.hasBody {
		p.Add(at+".batch", "needs bodies of JSON")
	}
	if m.target != nil && !m.target.Constant() {
		p.Add(at+".target", "must be the same for all messages of a batch")
	}
}

func (m *topicMapping) compileHeaders(at string, p *bridges.Problems) {
	names := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		at := memberPath(at+".headers", name)
		if msg := headerProblem(name); msg != "" {
			p.Add(at, msg)
		}
		if canonical := nethttp.CanonicalHeaderKey(name); names[canonical] {
			p.Add(at, "is given twice")
		} else {
			names[canonical] = true
		}
		t := m.template(at, m.Headers[name], mapping.EscapeNone, p)
		if t == nil {
			continue
		}
		if m.Batch && !t.Constant() {
			p.Add(at, "must be the same for all messages of a batch")
		}
		if t.Constant() && !isHeaderValue(m.Headers[name]) {
			p.Add(at, "has a value with characters that no header has")
		}
		if t.Constant() && isSecretHeader(name) {
			p.Add(at, "is a secret: it belongs to secretHeaders of the connection")
		}
		m.headers = append(m.headers, header{name, t})
	}
}
