package dynsec

import "strings"

// Event is something a client does, or that is done for it, which needs a right.
type Event int

// The events.
const (
	PublishSend    Event = iota // the client publishes, its Will included
	PublishReceive              // a message is to be delivered to the client
	Subscribe
	Unsubscribe
)

// Defaults says what happens to an event that no ACL decides about. Whatever it
// says, it never opens a topic that begins with $CONTROL.
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

// Rights are all that decides about the events of one username, or of the
// clients without one. They never change, so that any number of goroutines may
// ask them without a lock.
type Rights struct {
	username string
	roles    []*Rules
	defaults Defaults
}

// NewRights puts the roles of one username together. They are in order of
// evaluation: the client's own by priority, then those of each of its groups.
// An empty username stands for the clients without one. The slice is kept.
func NewRights(username string, roles []*Rules, d Defaults) *Rights {
	return &Rights{username: username, roles: roles, defaults: d}
}

// Allowed tells whether the event may happen. topic is the topic of a message,
// or the filter of a subscription as the client sent it, $share included. The
// first ACL that matches decides; a topic or filter that is not valid is never
// allowed. It allocates nothing.
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

// accepts tells whether topic is of the kind that the event is about.
func (ev Event) accepts(topic string) bool {
	switch ev {
	case PublishSend, PublishReceive:
		return ValidTopic(topic)
	case Subscribe, Unsubscribe:
		return ValidSubscription(topic)
	}
	return false
}

// control tells whether a topic or filter lies where no default gives access,
// also when it is shared.
func control(topic string) bool {
	if shared, ok := strings.CutPrefix(topic, sharePrefix); ok {
		_, topic, _ = strings.Cut(shared, "/")
	}
	return strings.HasPrefix(topic, "$CONTROL")
}
