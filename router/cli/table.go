package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"

	"signalbox/router"
)

// table prints rows in columns of equal width. What is printed already does not move, so
// a long list is aligned in parts.
type table struct {
	w       *tabwriter.Writer
	columns []string
	rows    int
}

const (
	maxColumns = 8   // without --columns
	alignRows  = 200 // rows that are aligned together
)

func newTable(w io.Writer, columns []string, header bool) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), columns: columns}
	if header {
		titles := make([]string, 0, len(columns))
		for _, c := range columns {
			titles = append(titles, strings.ToUpper(kebab(c)))
		}
		t.cells(titles...)
	}
	return t
}

// cells writes a row of texts.
func (t *table) cells(texts ...string) {
	fmt.Fprintln(t.w, strings.Join(texts, "\t")) //nolint:errcheck // flush reports the error
}

// add writes the row of an entry.
func (t *table) add(value any) error {
	texts := make([]string, 0, len(t.columns))
	for _, c := range t.columns {
		texts = append(texts, cell(at(value, c)))
	}
	t.cells(texts...)
	if t.rows++; t.rows%alignRows == 0 {
		return t.flush()
	}
	return nil
}

func (t *table) flush() error { return t.w.Flush() }

// at returns the value of a column: of a member, or of one within it, as in
// "info.version". An entry that is a name alone has it in every column.
func at(value any, column string) any {
	for name := range strings.SplitSeq(column, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			if _, isName := value.(string); isName {
				return value
			}
			return nil
		}
		value = object[name]
	}
	return value
}

// cell returns a value as the text of a cell. Texts are escaped, since names may contain
// commands for the terminal.
func cell(value any) string {
	switch v := value.(type) {
	case nil, []any, map[string]any:
		if list, ok := v.([]any); ok {
			return cellOfList(list)
		}
		if v == nil {
			return "-"
		}
	case string:
		if v == "" {
			return "-"
		}
		return printable(v)
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	text, err := encode(value)
	if err != nil {
		return "?"
	}
	return printable(string(text))
}

// cellOfList returns the names of the entries of a list, or their JSON.
func cellOfList(list []any) string {
	if len(list) == 0 {
		return "-"
	}
	texts := make([]string, 0, len(list))
	for _, entry := range list {
		if object, ok := entry.(map[string]any); ok {
			if name := nameIn(object); name != "" {
				texts = append(texts, printable(ruleOf(object)+name))
				continue
			}
		}
		texts = append(texts, cell(entry))
	}
	return strings.Join(texts, ",")
}

// ruleOf returns what an ACL decides about its topic, "" for an object that is none.
func ruleOf(object map[string]any) string {
	kind, ok := object["acltype"].(string)
	switch {
	case !ok:
		return ""
	case object["allow"] == false:
		return "deny " + kind + " "
	}
	return kind + " "
}

// nameMembers are the members that identify an object, the best first.
var nameMembers = []string{"rolename", "groupname", "streamname", "clustername", "username", "clientid", "name", "topic", "email", "id", "value"}

// nameIn returns the name of an object, "" if it has none.
func nameIn(object map[string]any) string {
	for _, m := range nameMembers {
		if name, ok := object[m].(string); ok && name != "" {
			return name
		}
	}
	return ""
}

// nameOfEntry returns the name of an entry for -o name.
func (p *printer) nameOfEntry(text json.RawMessage) string {
	value, err := decodeJSON(text)
	if err != nil {
		return ""
	}
	object, ok := value.(map[string]any)
	if !ok {
		return cell(value)
	}
	if name := cell(object[p.nameColumn()]); name != "-" {
		return name
	}
	return printable(nameIn(object))
}

// nameColumn returns the member that names the entries, "" if there is none.
func (p *printer) nameColumn() string {
	s := p.schema
	if usual, ok := usualColumns[p.operation]; ok {
		return usual[0]
	}
	if s == nil {
		return ""
	}
	identifies := func(m router.Field) bool {
		return m.Name != "id" && m.Name != "value" && slices.Contains(nameMembers, m.Name)
	}
	if i := slices.IndexFunc(s.Members, identifies); i >= 0 {
		return s.Members[i].Name
	}
	for _, name := range []string{"id", "value"} {
		if slices.ContainsFunc(s.Members, func(m router.Field) bool { return m.Name == name }) {
			return name
		}
	}
	return ""
}

// usualColumns are those of lists, of an operation or within its response, whose schema does not
// begin with what matters most. The first one names an entry.
var usualColumns = map[string][]string{
	"listProjects": {"name", "id", "description", "role"},
	"listBrokers":  {"name", "id", "type", "url", "status.connected"},
	"listUsers":    {"email", "name", "id", "project_count", "created_at"},
	"listAdmins":   {"email", "name", "id", "project_count", "created_at"},

	"listAudit":        {"seq", "time", "actor_name", "operation", "object_name", "outcome", "code", "count"},
	"listProjectAudit": {"seq", "time", "actor_name", "operation", "object_name", "outcome", "code", "count"},

	"inspectClients":  {"clientid", "username", "address", "connected", "protocolVersion", "listener.port", "lastConnect", "lastDisconnect"},
	"getBridgeStatus": {"connectionName", "isConnected", "queuedMessages", "stats.delivered", "stats.deadLetters", "error"},
	"listDeadLetters": {"id", "topic", "payload", "attempts", "reason"},
	"listTokens":      {"name", "id", "role_id", "issuer", "valid_date", "last_used_date"},

	"listSessions":     {"id", "created_at", "expires_at", "address", "user_agent", "current"},
	"listUserSessions": {"id", "created_at", "expires_at", "address", "user_agent", "current"},

	"testBroker.remedies":     {"text", "lines"},
	"testBroker.certificates": {"subject", "notAfter", "fingerprint"},
}

// requestedColumns follow the others if the entries have them, which is so only when they were
// requested.
var requestedColumns = map[string][]string{
	"inspectClients": {"rateIn", "rateOut"}, "listProjects": {"members", "brokers"}, "listStreams": {"rate"},
}

// chooseColumns returns the columns of --columns, or else those of the operation with what was
// requested.
func (p *printer) chooseColumns(first any) []string {
	if len(p.columns) > 0 {
		return p.columns
	}
	object, _ := first.(map[string]any)
	columns := p.columnsOf(object)
	for _, name := range requestedColumns[p.operation] {
		if _, has := object[name]; has && !slices.Contains(columns, name) {
			columns = append(columns[:len(columns):len(columns)], name)
		}
	}
	return columns
}

// columnsOf returns the usual columns of the operation, or else the name, the scalars and the
// lists of the schema or, if that is not known, of the first entry, nil if it is no object.
func (p *printer) columnsOf(first map[string]any) []string {
	if usual, ok := usualColumns[p.operation]; ok {
		return usual
	}
	if p.schema == nil || p.schema.Kind != router.Object {
		if first == nil {
			return []string{"name"}
		}
		return slices.Sorted(maps.Keys(first))
	}
	var columns []string
	if name := p.nameColumn(); name != "" {
		columns = []string{name}
	}
	for _, m := range p.schema.Members {
		if len(columns) < maxColumns && !slices.Contains(columns, m.Name) && isColumn(m) {
			columns = append(columns, m.Name)
		}
	}
	return columns
}

// isColumn reports whether a member is shown without --columns.
func isColumn(m router.Field) bool {
	nested := m.Kind == router.Object || m.Kind == router.Map || m.Kind == router.Free
	return !nested && m.Name != "project_id" && !strings.HasSuffix(m.Name, "_at")
}

// memberNames returns the members of an object in the order of the schema, then the
// others.
func (p *printer) memberNames(object map[string]any) []string {
	var names []string
	if p.schema != nil {
		for _, m := range p.schema.Members {
			names = append(names, m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// yamlNode reads a JSON value as YAML, with its members in their order.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return yamlContainer(d, v)
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

func yamlContainer(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if open == '{' {
		n.Kind = yaml.MappingNode
	}
	for d.More() { // a member has two tokens, its name is the first
		inner, err := yamlNode(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, inner)
	}
	_, err := d.Token()
	return n, err
}
