// Package topics finds the subscribers and the retained messages of topics. An Index holds
// subscriptions, a Retained holds messages; both implement topic filters (MQTT 5, 4.7) and
// know nothing of connections, sessions or packets.
//
// It imports an ordered tree and the standard library, and must not import anything else.
// DESIGN.md explains the data structures.
package topics
