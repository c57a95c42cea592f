// Package influxdb is the kind of bridge that writes messages as points to InfluxDB, version 1 or
// 2, and to compatible servers.
//
// DESIGN.md describes how a point is made and what happens to one that is refused. The package
// must not import the stores of bridges or another kind.
package influxdb

import (
	"cmp"
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
)

var (
	//go:embed connection.json
	connectionSchema []byte
	//go:embed options.json
	optionsSchema []byte
	//go:embed mapping.json
	mappingSchema []byte
)

// Kind is the influxdb-bridge.
type Kind struct{}

// ID is "influxdb-bridge".
func (Kind) ID() string { return "influxdb-bridge" }

// Schema returns the configuration schema that is specific to InfluxDB.
func (Kind) Schema() bridges.Schema {
	return bridges.Schema{
		Title:       "InfluxDB",
		Description: "Writes messages as points to InfluxDB, version 1 or 2.",
		Connection:  connectionSchema,
		Options:     optionsSchema,
		Mapping:     mappingSchema,
		Records:     true,
	}
}

// document is the configuration of a connection.
type document struct {
	Connection    server           `json:"connection"`
	Options       options          `json:"options"`
	TopicMappings []mappingOptions `json:"topicMappings"`
}

type options struct {
	Compression      string `json:"compression"`
	UniqueTimestamps bool   `json:"uniqueTimestamps"`
}

type mappingOptions struct {
	Name          string            `json:"name"`
	Target        string            `json:"target"`
	Tags          map[string]string `json:"tags"`
	SchemaMapping *string           `json:"schemaMapping"`
	Timestamp     string            `json:"timestamp"`
	TimestampUnit string            `json:"timestampUnit"`
}

// Compile creates a connector from a connection's configuration.
func (Kind) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	d := document{Options: options{Compression: "gzip", UniqueTimestamps: true}}
	problems := bridges.Decode(c.Document, &d)
	if len(problems) > 0 {
		return nil, problems
	}
	k := &connector{client: newClient(c.DialContext, &d.Connection, d.Options.Compression == "gzip", &problems), plans: make(map[string]*plan)}
	for i, m := range d.TopicMappings {
		place := "topicMappings[" + strconv.Itoa(i) + "]."
		l := newPlan(m, c.Records[m.Name], place, &problems)
		l.unique = d.Options.UniqueTimestamps && cmp.Or(m.Timestamp, arrival) == arrival
		k.plans[m.Name] = l
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return k, nil
}

// arrival is the expression for the time at which a message arrived, the default time of a point.
const arrival = "timestamp"

// newPlan compiles a topic mapping.
func newPlan(m mappingOptions, record *mapping.Mapping, place string, p *bridges.Problems) *plan {
	l := &plan{unit: units[cmp.Or(m.TimestampUnit, "ms")]}
	parse := func(text, name string) *mapping.Template {
		t, err := mapping.ParseTemplate(text, mapping.EscapeNone)
		if err != nil {
			p.Add(place+name, err.Error())
		}
		return t
	}
	if l.measurement = parse(m.Target, "target"); m.Target == "" {
		p.Add(place+"target", "must name a measurement")
	}
	if m.Tags == nil {
		m.Tags = map[string]string{"topic": "${topic}"}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Tags)) { // the line protocol wants tags in this order
		if why := nameProblem(name); why != "" {
			p.Add(place+"tags", "the name "+strconv.Quote(name)+" "+why)
		}
		l.tags = append(l.tags, tag{name, parse(m.Tags[name], "tags."+name)})
	}
	if m.SchemaMapping != nil && record != nil {
		l.record, l.types = record, record.Types()
		for _, target := range record.Targets() {
			if why := nameProblem(target); why != "" {
				p.Add(place+"schemaMapping", "has the target "+strconv.Quote(target)+", which "+why)
			}
		}
	}
	var err error
	if l.time, err = mapping.ParseExpression(cmp.Or(m.Timestamp, arrival)); err != nil {
		p.Add(place+"timestamp", err.Error())
	}
	return l
}

// nameProblem returns why a tag or field cannot have a name, "" if it can.
func nameProblem(name string) string {
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "is empty or has a control character"
	case isAmbiguous(name):
		return "ends with a backslash, or has one before a comma, a space or an equals sign"
	case name == "time" || strings.HasPrefix(name, "_"):
		return "belongs to InfluxDB, as time and all that begin with an underscore"
	}
	return ""
}

// isAmbiguous reports whether InfluxDB could take a backslash in a name or in the value of a tag
// for an escape: part of the text would become a tag or field.
func isAmbiguous(s string) bool {
	for i := range len(s) {
		if s[i] == '\\' && (i+1 == len(s) || strings.IndexByte(", =", s[i+1]) >= 0) {
			return true
		}
	}
	return false
}
