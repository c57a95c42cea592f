package remote

import (
	"cmp"
	"slices"
	"sync"

	"signalbox/broker"
)

// shown is the order in which capabilities are listed.
var shown = []broker.Capability{
	broker.CapDynamicSecurity, broker.CapInspect, broker.CapStreams, broker.CapTopicTree, broker.CapTTL,
	broker.CapListeners, broker.CapBridges, broker.CapLicense, broker.CapCluster, broker.CapClientControl,
	broker.CapMessages, broker.CapSubscriptions, broker.CapAccessCheck, broker.CapDenials, broker.CapBans,
}

// offer is what a broker turned out to offer during a session.
type offer struct {
	bridges nameSet // by their ids

	mu     sync.Mutex          // guards the fields below
	made   []broker.Capability // what this package makes up for where the broker does not offer it
	caps   []broker.Capability
	lacked map[broker.Capability]lack // why others are not offered
}

// nameSet is a set of names. The zero value is empty.
type nameSet struct {
	mu  sync.Mutex // guards set
	set map[string]bool
}

func (n *nameSet) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.set[name]
}

func (n *nameSet) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = map[string]bool{}
	}
	n.set[name] = true
}

func (o *offer) add(caps ...broker.Capability) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range caps {
		if !slices.Contains(o.caps, c) && !o.lacked[c].final {
			o.caps = append(o.caps, c)
		}
	}
}

// lacks notes why a feature is not offered.
func (o *offer) lacks(l lack) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lacked == nil {
		o.lacked = map[broker.Capability]lack{}
	}
	for _, c := range l.caps {
		if !o.lacked[c].decided {
			o.lacked[c] = l
		}
	}
	if l.final {
		o.caps = slices.DeleteFunc(o.caps, func(c broker.Capability) bool { return slices.Contains(l.caps, c) })
	}
}

// lack returns why something is not offered.
func (o *offer) lack(c broker.Capability) broker.Missing {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l, ok := o.lacked[c]; ok {
		return broker.Missing{Feature: c, Reason: l.reason, Remedy: l.remedy}
	}
	return broker.Missing{Feature: c, Reason: cmp.Or(unasked[c], "the broker was not asked for it"), Remedy: remedies[c]}
}

// lacking lists what is neither offered nor made up for.
func (o *offer) lacking() []broker.Missing {
	missing := []broker.Missing{}
	there := o.list()
	for _, c := range shown {
		if !slices.Contains(there, c) {
			missing = append(missing, o.lack(c))
		}
	}
	return missing
}

func (o *offer) has(c broker.Capability) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.caps, c)
}

// list gives a copy in order, with what is made up for; it is never nil.
func (o *offer) list() []broker.Capability {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(shown), func(c broker.Capability) bool {
		return !slices.Contains(o.caps, c) && !slices.Contains(o.made, c)
	})
}
