// Package dynsec is the dynamic-security language of MQTT brokers: its commands
// and answers as they go over $CONTROL, the state that they act on, who may do
// what in that state, and the forms of passwords and files.
//
// It is pure: nothing here reads a clock, a file, a socket or a database. What
// a change means for a store or for live connections is handed out as values
// ([Change], [Cut]). It must not import any package of this module but broker,
// nor net/http, an MQTT library or a database.
package dynsec

// The topics on which requests come in and answers go out.
const (
	Topic         = "$CONTROL/dynamic-security/v1"
	ResponseTopic = Topic + "/response"
)
