package remote

import (
	"slices"
	"sync"

	"signalbox/broker"
)

// shown is the order in which capabilities are listed.
var shown = []broker.Capability{
	broker.CapDynamicSecurity, broker.CapInspect, broker.CapStreams, broker.CapTopicTree, broker.CapTTL,
	broker.CapListeners, broker.CapBridges, broker.CapLicense, broker.CapCluster, broker.CapClientControl,
	broker.CapMessages, broker.CapAccessCheck,
}

// offer is what a broker turned out to offer during a session.
type offer struct {
	made []broker.Capability // what this package makes up for where the broker does not offer it

	bridges nameSet // by their ids

	mu   sync.Mutex // guards caps
	caps []broker.Capability
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
		if !slices.Contains(o.caps, c) {
			o.caps = append(o.caps, c)
		}
	}
}

func (o *offer) has(c broker.Capability) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.caps, c)
}

// list gives a copy in order, with what is made up for; it is never nil.
func (o *offer) list() []broker.Capability {
	return slices.DeleteFunc(slices.Clone(shown), func(c broker.Capability) bool {
		return !o.has(c) && !slices.Contains(o.made, c)
	})
}
