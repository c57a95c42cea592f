// Package dynsec implements the dynamic security of MQTT brokers: its commands and
// responses as they are sent over $CONTROL, the state that they act on, the decision who
// may do what in that state, and the formats of passwords and files.
//
// It is pure: nothing here reads a clock, a file, a socket or a database. The effects
// of a change on a store or on live connections are returned as values ([Change],
// [Disconnect]). It must not import any package of this module but broker, nor net/http, an
// MQTT library or a database.
package dynsec

// The topics of requests and responses.
const (
	Topic         = "$CONTROL/dynamic-security/v1"
	ResponseTopic = Topic + "/response"
)
