// Package topics knows who is subscribed to a topic and which message is
// retained for it. An Index holds subscriptions, a Retained holds messages;
// both apply the rules of topic filters (MQTT 5, 4.7) and know
// nothing of connections, sessions or packets.
//
// It imports an ordered tree and the standard library, and must not import
// anything else: no other package of this module, no codec, no database.
// DESIGN.md tells why the structures are as they are.
package topics
