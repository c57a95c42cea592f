package systemtest

import (
	"encoding/json"
	"net"
	"net/http"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// httpPeer is a server that accepts one message per request.
type httpPeer struct {
	arrivals
	address string
	server  *http.Server
	done    chan struct{} // closed after the server has ended
}

func newHTTPPeer(t testing.TB, _ endpoint) peer { t.Helper(); return startHTTPPeer(t) }

func startHTTPPeer(t testing.TB) *httpPeer {
	t.Helper()
	p := &httpPeer{address: brokertest.FreePort(t, suite.Host())}
	p.start(t)
	t.Cleanup(func() { p.stop(t) })
	return p
}

// numbers is a schema mapping to the fields of an arrival.
func numbers(messageID string) object {
	return object{"name": "numbers", "mapping": []object{{"source": "topic", "target": "topic"},
		{"source": "jsonPayload.n", "target": "n", "type": "integer"},
		{"source": "jsonPayload.attempt", "target": "attempt", "type": "integer"},
		{"source": "message_id", "target": messageID}}}
}

// connectTo returns the configuration of a bridge with one connection.
func connectTo(connection, options, mapping object, schemas ...object) object {
	mapping["name"] = "all"
	if mapping["mqttTopics"] == nil {
		mapping["mqttTopics"] = []string{"plant/#"}
	}
	options["retryMinInsertDelay"], options["retryMaxInsertDelay"] = 50, 200
	document := object{"version": "v1", "connections": []object{{"name": "peer", "connection": connection,
		"options": options, "topicMappings": []object{mapping}}}}
	if len(schemas) > 0 {
		document["schemaMappings"] = schemas
		mapping["schemaMapping"] = schemas[0]["name"]
	}
	return document
}

func (p *httpPeer) bridge() (string, object) {
	return "http-bridge", connectTo(object{"url": "http://" + p.address}, object{"concurrency": 8}, object{"target": "/messages"}, numbers("id"))
}

func (p *httpPeer) start(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	p.server, p.done = &http.Server{Handler: http.HandlerFunc(p.serve)}, make(chan struct{})
	go func() {
		defer close(p.done)
		p.server.Serve(l) //nolint:errcheck // it ends when the server is closed
	}()
}

// stop closes all connections, also those with requests in progress.
func (p *httpPeer) stop(testing.TB) {
	p.server.Close()
	<-p.done
}

func (p *httpPeer) serve(w http.ResponseWriter, r *http.Request) {
	var a arrival
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.take(a)
	w.WriteHeader(http.StatusNoContent)
}
