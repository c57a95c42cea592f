package http

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	nethttp "net/http"
	"testing"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
)

var errDialled = errors.New("a connection is wanted")

// FuzzRequest checks that every configuration that compiles makes requests that can be sent, or
// rejects the message: a request that cannot be sent would be retried for ever.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`"url":"https://example.com/api","headers":{"A":"b"},"hmac":{"secret":"s"}},"topicMappings":[{"name":"m","target":"/${topic|raw}","headers":{"X":"${payload}"}}]`,
		`"url":"http://[::1]:80","token":"é"},"topicMappings":[{"name":"m","method":"GET","target":"?${payload}","contentType":"text/plain; a=\"b\""}]`,
		`"url":"http://h","credentials":{"username":"u"}},"topicMappings":[{"name":"m","body":"{\"a\":\"${payload}\"}","batch":true}]`,
		`"url":"http://h:99999/a//b"},"topicMappings":[{"name":"m","method":"PURGE","body":"${payload}","contentType":"a/b"}]`,
	} {
		f.Add([]byte(`{"connection":{`+seed+`}`), "a/b", []byte("1"))
		f.Add([]byte(`{"connection":{`+seed+`}`), "a/é\n/..", []byte("\"\r\n\xff"))
	}
	f.Fuzz(func(t *testing.T, document []byte, topic string, payload []byte) {
		records := map[string]*mapping.Mapping{"m": mapping.Default()}
		made, problems := New().Compile(&bridges.Connection{Document: json.RawMessage(document), Records: records, Meter: &bridges.Meter{}})
		if len(problems) > 0 || made == nil {
			return
		}
		c, _ := made.(*connector)
		c.client.Transport.(*nethttp.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, errDialled }
		e := &bridges.Entry{Mapping: "m", MessageID: "store-1", Message: messaging.Message{Topic: topic, Payload: payload}}
		for _, m := range c.mappings {
			switch m.Method { // as the schema demands
			case "POST", "PUT", "PATCH", "GET", "DELETE":
			default:
				continue
			}
			r, err := c.requestForOne(m, e)
			if err != nil {
				continue
			}
			resp, err := c.send(t.Context(), r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if !errors.Is(err, errDialled) {
				t.Fatalf("got %v, want it to be sent", err)
			}
		}
	})
}
