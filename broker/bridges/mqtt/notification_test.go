package mqtt

import (
	"encoding/json"
	"testing"

	"signalbox/broker/bridges"
)

// problemsOf returns the problems of a configuration.
func problemsOf(document string) bridges.Problems {
	c := &bridges.Connection{Name: "c", Document: json.RawMessage(document), Identity: "b", Meter: &bridges.Meter{}}
	_, p := parseDocument(c)
	return p
}

// TestNotificationTopics checks that a notification topic cannot be one that a broker
// uses for commands or for its own reports.
func TestNotificationTopics(t *testing.T) {
	t.Parallel()
	for topic, ok := range map[string]bool{
		"": true, "bridges/c": true, "$SYS/broker/connection/c/state": true,
		"$CONTROL/dynamic-security/v1": false, "$SYS/broker/uptime": false, "$share/g/a": false, "$SYS/broker/connection/": false, "a/#": false, "a\x00": false,
	} {
		text, _ := json.Marshal(topic)
		p := problemsOf(`{"connection":{"url":"mqtt://h","notificationTopic":` + string(text) + `}}`)
		if (len(p) == 0) != ok {
			t.Errorf("%q: problems %v", topic, p)
		}
	}
	for id, ok := range map[string]bool{"a/b": true, "#": false, "a+": false, "a\x00": false, "a\n": false} {
		text, _ := json.Marshal(id)
		if p := problemsOf(`{"connection":{"url":"mqtt://h","clientId":` + string(text) + `}}`); (len(p) == 0) != ok {
			t.Errorf("client id %q: problems %v", id, p)
		}
	}
}

// TestOtherTopicsAreRefused checks that other topics are refused, whatever another broker
// sends.
func TestOtherTopicsAreRefused(t *testing.T) {
	t.Parallel()
	far := &route{patterns: []string{"#"}, local: "", remote: "x/", in: true}
	under := &route{patterns: []string{"a/#"}, local: "site/", remote: "", in: true}
	all := &route{patterns: []string{"#"}, in: true}
	for _, c := range []struct {
		r           *route
		there, here string // "" if it must be refused
	}{
		{far, "x/a", "a"}, {far, "x/$CONTROL/dynamic-security/v1", ""}, {far, "x/$SYS/broker/uptime", ""}, {far, "x/$share/g/a", ""},
		{far, "x/", ""}, {far, "x", ""}, {far, "y/a", ""}, {far, "$CONTROL/v1", ""},
		{under, "a/b", "site/a/b"}, {under, "b", ""}, {under, "$SYS/a", ""}, {under, "site/a/b", ""},
		{all, "a", "a"}, {all, "$CONTROL/v1", ""}, {all, "$SYS/a", ""}, {all, "/$SYS/a", "/$SYS/a"},
	} {
		here, ok := c.r.toLocal(c.there)
		if ok = ok && c.r.firstMatch(c.r.remote, c.there) >= 0; ok != (c.here != "") || ok && here != c.here {
			t.Errorf("%+v, %s: came to %q, %v, want %q", *c.r, c.there, here, ok, c.here)
		}
	}
}
