package bridges

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"signalbox/broker"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/panics"
)

// document is a parsed configuration.
type document struct {
	tree        any             // with secrets in plain text
	text        json.RawMessage // the tree as JSON
	connections []*connection
}

// connection is a connection of a document.
type connection struct {
	path     string
	name     string
	enabled  bool
	options  options
	mappings []topicMapping
	text     json.RawMessage // its part of the document
	origin   string          // identifies its configuration, including schema mappings
	records  map[string]*mapping.Mapping
	secrets  []string
	invalid  bool // it has problems, so that it has no connector
}

// topicMapping is the members of a topic mapping that all kinds have.
type topicMapping struct {
	Name          string   `json:"name"`
	MQTTTopics    []string `json:"mqttTopics"`
	SchemaMapping string   `json:"schemaMapping"`
}

// options is the members of options that all kinds have.
type options struct {
	Messages    int64  `json:"maxQueuedMessages"`
	Bytes       int64  `json:"maxQueuedBytes"`
	WhenFull    string `json:"whenFull"`
	RetryMin    int64  `json:"retryMinInsertDelay"`
	RetryMax    int64  `json:"retryMaxInsertDelay"`
	MaxAttempts int    `json:"maxAttempts"`
	DeadLetters int64  `json:"maxDeadLetters"`
	BatchSize   int    `json:"batchSize"`
	BatchDelay  int64  `json:"batchDelay"`
	Timeout     int64  `json:"timeout"`
}

// defaultOptions returns the defaults of common.json.
func defaultOptions() options {
	return options{Messages: 100_000, Bytes: 256 << 20, RetryMin: 500, RetryMax: 30_000, DeadLetters: 10_000, BatchSize: 256, Timeout: 30_000}
}

func (o *options) bounds() Bounds {
	return Bounds{Messages: o.Messages, Bytes: o.Bytes, DropOldest: o.WhenFull == "dropOldest", DeadLetters: o.DeadLetters}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// names returns the names of the connections.
func (d *document) names() []string {
	names := make([]string, 0, len(d.connections))
	for _, c := range d.connections {
		names = append(names, c.name)
	}
	return names
}

// read parses a document, and restores masked secrets from the stored one.
func (s *schema) read(text, stored []byte) (*document, Problems) {
	tree, problems := readTree(text)
	if tree == nil && len(problems) > 0 {
		return nil, problems
	}
	if len(stored) > 0 {
		old, _ := readTree(stored)
		return s.interpret(tree, old, problems)
	}
	return s.interpret(tree, nil, problems)
}

// interpret continues after parsing JSON.
func (s *schema) interpret(tree, stored any, problems Problems) (*document, Problems) {
	tree, found := s.unmask(tree, stored)
	problems = append(append(problems, found...), s.validate(tree)...)
	d := &document{tree: tree, text: appendTree(nil, tree)}
	root, ok := tree.(*object)
	if !ok {
		return d, sorted(problems)
	}
	mappings, origins := s.schemaMappings(root, &problems)
	list, _ := root.get("connections").([]any)
	tooMany, filters := len(problems) > maxProblems || len(list) > maxConnections, 0
	for i, v := range list {
		c := s.connection(elementPath("connections", i), v, problems, tooMany)
		if filters += c.filterCount(); filters > maxFilters {
			tooMany = true
		}
		if !c.invalid {
			c.check(s, v, mappings, origins, &problems)
		}
		d.connections = append(d.connections, c)
	}
	if filters > maxFilters {
		problems.Add("connections", fmt.Sprintf("must not have more than %d topic filters in all", maxFilters))
	}
	d.checkNames(&problems)
	return d, sorted(problems)
}

// Bounds of a document. Comparing each topic filter with each takes the square of them.
const (
	maxConnections       = 100
	maxFilters           = 10_000 // of a document
	maxConnectionFilters = 2000
)

// filterCount returns the number of topic filters of a connection.
func (c *connection) filterCount() (n int) {
	for _, m := range c.mappings {
		n += len(m.MQTTTopics)
	}
	return n
}

// affects reports whether one of the problems is at or below a path.
func (p Problems) affects(root string) bool {
	return slices.ContainsFunc(p, func(p Problem) bool { return p.Path == "" || isBelow(p.Path, root) })
}

// connection parses a connection if it has no problems. If a document has too many, all
// connections are invalid.
func (s *schema) connection(path string, v any, problems Problems, tooMany bool) *connection {
	c := &connection{path: path, name: nameOf(v), invalid: tooMany || problems.affects(path), text: appendTree(nil, v), origin: fingerprint(v), secrets: s.secretsOf(v)}
	if c.invalid {
		return c
	}
	var read struct {
		Enabled       *bool          `json:"enabled"`
		Options       options        `json:"options"`
		TopicMappings []topicMapping `json:"topicMappings"`
	}
	read.Options = defaultOptions()
	if err := json.Unmarshal(c.text, &read); err != nil {
		c.invalid = true
		return c
	}
	c.enabled = read.Enabled == nil || *read.Enabled
	c.options, c.mappings = read.Options, read.TopicMappings
	if o, _ := v.(*object).get("options").(*object); o == nil || !o.has("retryMaxInsertDelay") {
		c.options.RetryMax = max(c.options.RetryMax, c.options.RetryMin)
	}
	return c
}

// check checks what a schema cannot express, and looks up the schema mappings of a connection.
func (c *connection) check(s *schema, v any, mappings map[string]*mapping.Mapping, origins map[string]string, problems *Problems) {
	before := len(*problems)
	if c.options.RetryMax < c.options.RetryMin {
		problems.Add(c.path+".options.retryMaxInsertDelay", "must not be less than retryMinInsertDelay")
	}
	if c.filterCount() > maxConnectionFilters {
		problems.Add(c.path+".topicMappings", fmt.Sprintf("must not have more than %d topic filters in all", maxConnectionFilters))
	}
	names := map[string]bool{}
	used := map[string]string{}
	c.records = map[string]*mapping.Mapping{}
	for i, t := range c.mappings {
		path := elementPath(c.path+".topicMappings", i)
		if names[t.Name] {
			problems.Add(path+".name", "is the name of another topic mapping of this connection")
		}
		names[t.Name] = true
		if !s.records {
			continue
		}
		c.records[t.Name] = mapping.Default()
		if t.SchemaMapping == "" {
			continue
		}
		m, ok := mappings[t.SchemaMapping]
		if !ok {
			problems.Add(path+".schemaMapping", "there is no schema mapping of this name")
			continue
		}
		c.invalid = c.invalid || m == nil // has problems of its own
		c.records[t.Name] = m
		used[t.SchemaMapping] = origins[t.SchemaMapping]
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		c.origin += used[name]
	}
	c.invalid = c.invalid || len(*problems) > before
}

// schemaMappings compiles the schema mappings of a document. One with problems is nil.
func (s *schema) schemaMappings(root *object, problems *Problems) (compiled map[string]*mapping.Mapping, origins map[string]string) {
	compiled, origins = map[string]*mapping.Mapping{}, map[string]string{}
	list, _ := root.get("schemaMappings").([]any)
	for i, v := range list {
		path, name := elementPath("schemaMappings", i), nameOf(v)
		if _, twice := compiled[name]; twice && name != "" {
			problems.Add(path+".name", "is the name of another schema mapping")
		}
		compiled[name], origins[name] = nil, fingerprint(v)
		if len(*problems) > maxProblems || problems.affects(path) {
			continue
		}
		var spec mapping.Spec
		if err := json.Unmarshal(appendTree(nil, v), &spec); err != nil {
			problems.Add(path, "cannot be read as a schema mapping")
			continue
		}
		m, found := mapping.Compile(spec)
		for _, p := range found {
			problems.Add(join(path, p.Path), p.Msg)
		}
		if len(found) == 0 {
			compiled[name] = m
		}
	}
	return compiled, origins
}

// checkNames refuses duplicate names, and names that cannot be part of a URL's path.
func (d *document) checkNames(problems *Problems) {
	seen := map[string]bool{}
	for _, c := range d.connections {
		switch {
		case c.name == "." || c.name == "..":
			problems.Add(c.path+".name", "must not be . or .., which lead elsewhere in a URL")
		case strings.ContainsFunc(c.name, unicode.IsControl):
			problems.Add(c.path+".name", "must not hold control characters")
		}
		if seen[c.name] && c.name != "" {
			problems.Add(c.path+".name", "is the name of another connection of this bridge")
		}
		seen[c.name] = true
	}
}

// join joins two paths.
func join(root, path string) string {
	switch {
	case path == "":
		return root
	case root == "" || path[0] == '[':
		return root + path
	}
	return root + "." + path
}

// compile creates the connector of a connection.
func (k *kind) compile(log *slog.Logger, c *connection, with *Connection) (connector Connector, found Problems) {
	defer func() {
		if r := recover(); r != nil {
			panics.Log(context.Background(), log, "a connection of a bridge could not be configured", panicText(r), slog.String("connection", c.name))
			connector, found = nil, Problems{{c.path, "this kind of bridge failed to read it, because of a fault of the program"}}
		}
	}()
	with.Name, with.Document, with.Records = c.name, c.text, c.records
	with.Timeout = milliseconds(c.options.Timeout)
	if with.Meter == nil {
		with.Meter = &Meter{}
	}
	connector, problems := k.Compile(with)
	for _, p := range problems {
		found.Add(join(c.path, p.Path), p.Msg)
	}
	if connector == nil && len(found) == 0 {
		found.Add(c.path, "this kind of bridge created no connection from it")
	}
	return connector, found.addMissing(c.filters(connector))
}

// addMissing adds problems at paths that have none yet.
func (p Problems) addMissing(more Problems) Problems {
	for _, m := range more {
		if !slices.ContainsFunc(p, func(known Problem) bool { return known.Path == m.Path }) {
			p = append(p, m)
		}
	}
	return p
}

// filters returns the problems of topic filters. Those of a Selective connector, and of one that
// could not be created, are unknown here.
func (c *connection) filters(connector Connector) (found Problems) {
	if _, ok := connector.(Selective); ok {
		return nil
	}
	for i, t := range c.mappings {
		for j, f := range t.MQTTTopics {
			path := elementPath(elementPath(c.path+".topicMappings", i)+".mqttTopics", j)
			switch {
			case f == "" && connector == nil:
			case !broker.ValidFilter(f):
				found.Add(path, "is not a valid topic filter")
			case connector != nil && strings.HasPrefix(f, "$share/"):
				found.Add(path, "a shared subscription cannot be a source: give the filter in it")
			case connector != nil && f[0] == '$':
				found.Add(path, "topics with $ cannot be taken")
			}
		}
	}
	return found
}
