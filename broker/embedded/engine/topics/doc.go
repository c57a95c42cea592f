// Package topics knows who is subscribed to a topic and which message is
// retained for it. An Index holds subscriptions, a Retained holds messages;
// both apply the rules of topic filters [MQTT-4.7.1], [MQTT-4.7.2] and know
// nothing of connections, sessions or packets.
//
// It imports an ordered tree and the standard library, and must not import
// anything else: no other package of this module, no codec, no database.
// DESIGN.md tells why the structures are as they are.
package topics
