// Package broker defines one MQTT broker as an operator sees it: the types of its
// access control, clients, streams, topics, messages, bridges, listeners and licence,
// the interface that every kind of broker implements, and the pool of live ones.
//
// It must not import any other package of this module, nor net/http, a database or an
// MQTT library: kinds of broker are in the packages below it.
package broker

import (
	"context"
	"iter"
	"time"
)

// Broker is one live broker of any kind. All methods are safe for concurrent use. A
// kind without a feature embeds that feature's No type, so that the gap is visible in
// its declaration and returns Unsupported.
type Broker interface {
	Access
	AccessTransfer
	System
	Inspector
	ClientRanker
	ClientControl
	Streams
	Topics
	Bridges
	Messages
	Subscriptions
	AccessChecker
	Denials
	Bans

	// Status reports whether the broker is reached now; it never blocks.
	Status() Status
	// Ready waits until the broker is reached and its capabilities are known. It
	// returns the cause, as an *Error, if the current attempt fails, or the context's
	// error.
	Ready(ctx context.Context) error
	// Capabilities returns what the broker can do, as far as known now; it never
	// blocks.
	Capabilities() []Capability
	// Close ends the connection and waits for everything the broker started.
	Close(ctx context.Context) error
}

// Status reports whether a broker is reached, since when (the time of the last change)
// and, if not, why: one sentence that an operator can act on. Missing are the features
// that a reached broker does not have.
type Status struct {
	Connected bool
	Since     time.Time
	Error     string
	Version   string // as in $SYS/broker/version, "" if that is not known
	Missing   []Missing
}

// Missing is a feature that a broker does not have, the reason, and what an operator
// can do about it. Reason and Remedy are clauses without a full stop.
type Missing struct {
	Feature Capability `json:"feature" doc:"The feature, as in capabilities." example:"inspect"`
	Reason  string     `json:"reason" doc:"Why the broker does not have it." example:"the broker does not answer on $CONTROL/cedalo/inspect/v1"`
	Remedy  string     `json:"remedy" doc:"What to change at the broker, so that it has the feature." example:"use the embedded broker, which has this feature"`
}

// Error returns the error of an operation that needs the feature.
func (m Missing) Error(op string) *Error {
	return &Error{Kind: Unsupported, Op: op, Feature: m.Feature, Msg: m.Reason + ": " + m.Remedy}
}

// Capability names a feature that a broker may have. The values are those of
// the broker object's member "capabilities".
type Capability string

// The capabilities, in the order in which they are shown.
const (
	CapDynamicSecurity Capability = "dynamic-security"
	CapInspect         Capability = "inspect"
	CapStreams         Capability = "streams"
	CapTopicTree       Capability = "topic-tree"
	CapTTL             Capability = "ttl"
	CapListeners       Capability = "listeners"
	CapBridges         Capability = "bridges"
	CapLicense         Capability = "license"
	CapCluster         Capability = "cluster"
	CapClientControl   Capability = "client-control"
	CapMessages        Capability = "messages"
	CapSubscriptions   Capability = "subscriptions"
	CapAccessCheck     Capability = "access-check"
	CapDenials         Capability = "denials"
	CapBans            Capability = "bans"
)

// RateSpan is the time over which rates are measured on request. It is shorter than the default of
// log.slow, so that each measurement is not logged as a slow request.
const RateSpan = 900 * time.Millisecond

// Page is a page of a list. Total counts the entries before offset and count were
// applied. Items yields the entries of the page once; an error ends it.
type Page[T any] struct {
	Total int
	Items iter.Seq2[T, error]
}

// ListOptions selects a page of a list. Count -1 means all. Match, if not nil, is
// applied before Offset and Count, and the context is checked between entries. With
// NamesOnly the entries may contain only their name. NameContains, if not empty, states in lower case what
// Match looks for in the name of an entry, whatever its case, for a broker that can search faster.
// With Rates the entries have their rates, if the broker can measure them, which takes RateSpan.
type ListOptions[T any] struct {
	Offset       int
	Count        int
	NamesOnly    bool
	Rates        bool
	Match        Match[T]
	NameContains string
}
