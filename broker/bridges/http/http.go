// Package http sends messages to HTTP servers, one per request or many in one. It is the kind
// "http-bridge" of bridges.
//
// The package must not import another kind, nor an implementation of a broker.
package http

import (
	"crypto/tls"
	_ "embed"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

// ID is the id of the kind.
const ID = "http-bridge"

//go:embed connection.json
var connectionSchema []byte

//go:embed options.json
var optionsSchema []byte

//go:embed mapping.json
var mappingSchema []byte

// Kind creates connectors to HTTP servers.
type Kind struct {
	now func() time.Time
}

// New returns the kind.
func New() Kind { return Kind{now: time.Now} }

// ID returns "http-bridge".
func (Kind) ID() string { return ID }

// Schema returns the configuration schema that is specific to HTTP.
func (Kind) Schema() bridges.Schema {
	return bridges.Schema{
		Title: "HTTP bridge",
		Description: "Messages become HTTP requests: one each, or one for many. A message is delivered when the server responds " +
			"with a success status; it is sent again after a response 5xx, 401, 407, 408, 425 or 429, and without a response. " +
			"Any other status makes it a dead letter. A request for one message has its identifier in X-Signalbox-Message-Id, which is " +
			"the same in a retry, and its topic, escaped as in URLs, in X-Signalbox-Topic.",
		Connection: connectionSchema,
		Options:    optionsSchema,
		Mapping:    mappingSchema,
		Records:    true,
	}
}

// Compile creates a connector that is not connected.
func (k Kind) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	d := document{Options: options{Concurrency: 1}}
	problems := bridges.Decode(c.Document, &d)
	if len(problems) > 0 {
		return nil, problems
	}
	conn := &connector{now: k.now, dialer: c.DialContext, options: d.Options, mappings: map[string]*topicMapping{}}
	conn.base, conn.tls = target.ParseURL(d.Connection.URL, d.Connection.TLS, &problems)
	conn.header = d.Connection.header(&problems)
	conn.sign = d.Connection.HMAC.signer()
	conn.redact = d.Connection.redactor()
	for i := range d.TopicMappings {
		m := &d.TopicMappings[i]
		conn.mappings[m.Name] = m.compile(fmt.Sprintf("topicMappings[%d]", i), c.Records[m.Name], &problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	conn.client = target.HTTPClient(c.DialContext, conn.tls, d.Options.Concurrency)
	return conn, nil
}

// connector is a connection to a server. Its configuration is immutable.
type connector struct {
	now      func() time.Time
	base     *url.URL
	header   nethttp.Header // of every request
	sign     *signer        // nil if requests are not signed
	redact   *strings.Replacer
	options  options
	mappings map[string]*topicMapping
	dialer   bridges.Dial
	tls      *tls.Config // nil without TLS

	client      *nethttp.Client
	retryDelay  retryDelay // requested by the server
	lastContact lastContact
}
