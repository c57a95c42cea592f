package sql

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
)

// document is the configuration of a connection.
type document struct {
	Connection    server         `json:"connection"`
	TopicMappings []topicMapping `json:"topicMappings"`
}

type server struct {
	Driver      string              `json:"driver"`
	Hostname    string              `json:"hostname"`
	Port        int                 `json:"port"`
	Database    string              `json:"database"`
	Schema      string              `json:"schema"`
	Credentials bridges.Credentials `json:"credentials"`
	TLS         bridges.TLS         `json:"tls"`
}

type topicMapping struct {
	Name          string `json:"name"`
	Target        string `json:"target"`
	SchemaMapping string `json:"schemaMapping"`
	OnConflict    string `json:"onConflict"`
}

// endpoint is everything that is needed to open a session.
type endpoint struct {
	host     string
	port     int
	database string
	schema   string
	username string
	password string
	tls      *tls.Config   // nil without TLS
	timeout  time.Duration // for a batch; 0 for no limit
	dial     bridges.Dial
}

// address returns host and port.
func (e *endpoint) address() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

// dialect is a family of databases that share a protocol.
type dialect struct {
	open    func(ctx context.Context, e *endpoint) (session, error)
	port    int
	maxName int  // maximum length of a name in bytes
	schemas bool // a database has schemas
}

var (
	postgresql = dialect{open: openPostgres, port: 5432, maxName: 63, schemas: true}
	cockroach  = dialect{open: openPostgres, port: 26257, maxName: 128, schemas: true}
	mySQL      = dialect{open: openMySQL, port: 3306, maxName: 64 * 4}
)

// dialects maps drivers to dialects.
var dialects = map[string]dialect{
	"postgresql": postgresql, "timescaledb": postgresql, "cockroachdb": cockroach, "mysql": mySQL, "mariadb": mySQL,
}

// Compile creates a connector from a connection's configuration.
func (Kind) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	var d document
	problems := bridges.Decode(c.Document, &d)
	if len(problems) > 0 {
		return nil, problems
	}
	sqlDialect, known := dialects[d.Connection.Driver]
	if !known {
		problems.Add("connection.driver", "is unknown")
		return nil, problems
	}
	e := d.Connection.endpoint(sqlDialect, &problems)
	e.timeout = c.Timeout
	e.dial = c.DialContext
	k := &connector{plans: make(map[string]*plan, len(d.TopicMappings))}
	k.open = func(ctx context.Context) (session, error) { return sqlDialect.open(ctx, e) }
	for i, m := range d.TopicMappings {
		t, err := parseTable(m.Target, sqlDialect.maxName)
		if err != nil {
			problems.Add(fmt.Sprintf("topicMappings[%d].target", i), err.Error())
		}
		if t.schema == "" {
			t.schema = d.Connection.Schema
		}
		k.plans[m.Name] = newPlan(m, t, c.Records[m.Name], sqlDialect, i, &problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return k, nil
}

// endpoint returns the settings for opening sessions.
func (s *server) endpoint(d dialect, p *bridges.Problems) *endpoint {
	if s.Credentials.Username == "" {
		p.Add("connection.credentials.username", "must not be empty")
	}
	if s.Schema != "" && !d.schemas {
		p.Add("connection.schema", "has no meaning for this database, whose tables are in databases: leave it out")
	}
	if strings.ContainsAny(s.Hostname, "/@, ") {
		p.Add("connection.hostname", "must be the name or address of one machine")
	}
	port := s.Port
	if port == 0 {
		port = d.port
	}
	return &endpoint{
		host: s.Hostname, port: port, database: s.Database, schema: s.Schema,
		username: s.Credentials.Username, password: s.Credentials.Password,
		tls: s.TLS.Config(s.Hostname, "connection.tls", p),
	}
}

// plan is what a topic mapping inserts, and into which table.
type plan struct {
	mapping string // its name
	source  string // advice on where to change the fields
	table   table
	ignore  bool // skip rows that exist already
	record  *mapping.Mapping
	fields  []string // targets of the records

	columns   []column // for the fields; set when connected
	statement string   // the INSERT statement, built by the session at its first use
}

func newPlan(m topicMapping, t table, r *mapping.Mapping, d dialect, i int, p *bridges.Problems) *plan {
	if r == nil {
		r = mapping.Default()
	}
	l := &plan{mapping: m.Name, table: t, ignore: m.OnConflict == "ignore", record: r, fields: r.Targets()}
	l.source = fmt.Sprintf("give the topic mapping %q a schema mapping", m.Name)
	if m.SchemaMapping != "" {
		l.source = fmt.Sprintf("change the schema mapping %q", m.SchemaMapping)
	}
	for _, f := range l.fields {
		if err := checkName(f, d.maxName); err != nil {
			p.Add(fmt.Sprintf("topicMappings[%d].schemaMapping", i), fmt.Sprintf("its target %q cannot be a column: it %v", f, err))
		}
	}
	return l
}
