package dynsec

import "strings"

// Event is an action by or for a client that needs a right.
type Event int

// The events.
const (
	PublishSend    Event = iota // the client publishes, its Will included
	PublishReceive              // a message is to be delivered to the client
	Subscribe
	Unsubscribe
)

// Defaults decide about events that no ACL matches. They never apply to a topic that
// begins with $CONTROL, which is denied.
type Defaults struct {
	PublishClientSend    bool
	PublishClientReceive bool
	Subscribe            bool
	Unsubscribe          bool
}

// DefaultDefaults are the defaults of a new broker.
func DefaultDefaults() Defaults {
	return Defaults{PublishClientReceive: true, Unsubscribe: true}
}

func (d Defaults) allow(ev Event) bool {
	switch ev {
	case PublishSend:
		return d.PublishClientSend
	case PublishReceive:
		return d.PublishClientReceive
	case Subscribe:
		return d.Subscribe
	case Unsubscribe:
		return d.Unsubscribe
	}
	return false
}

// Rights decide about the events of one username, or of the clients without one. They
// are immutable, so that any number of goroutines may use them without a lock.
type Rights struct {
	username string
	roles    []*rules
	defaults Defaults
}

// newRights combines the roles of one username. They are in order of evaluation: the
// client's own by priority, then those of each of its groups. An empty username stands
// for the clients without one. The slice is retained.
func newRights(username string, roles []*rules, d Defaults) *Rights {
	return &Rights{username: username, roles: roles, defaults: d}
}

// Allowed reports whether the event is allowed. topic is the topic of a message, or the
// filter of a subscription as the client sent it, $share included. The first ACL that
// matches decides; a topic or filter that is not valid is never allowed. It allocates
// nothing.
func (r *Rights) Allowed(ev Event, clientID, topic string) bool {
	if !ev.accepts(topic) {
		return false
	}
	q := query{username: r.username, clientID: clientID, topic: topic}
	for _, role := range r.roles {
		if v := role.decide(ev, &q); v != undecided {
			return v.allow()
		}
	}
	return r.defaults.allow(ev) && !control(topic)
}

// accepts reports whether topic is of the type that the event needs.
func (ev Event) accepts(topic string) bool {
	switch ev {
	case PublishSend, PublishReceive:
		return validTopic(topic)
	case Subscribe, Unsubscribe:
		return validSubscription(topic)
	}
	return false
}

// control reports whether a topic or filter is one to which no default grants access,
// also as a shared subscription.
func control(topic string) bool {
	if shared, ok := strings.CutPrefix(topic, sharePrefix); ok {
		_, topic, _ = strings.Cut(shared, "/")
	}
	return strings.HasPrefix(topic, "$CONTROL")
}
