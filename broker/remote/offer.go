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
	mu   sync.Mutex // guards caps
	caps []broker.Capability
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

// ours are what this package makes up for where a broker does not offer it.
var ours = []broker.Capability{broker.CapTopicTree, broker.CapTTL}

// list gives a copy in order, with what is made up for; it is never nil. Before
// the first session nothing is offered.
func (o *offer) list() []broker.Capability {
	l := slices.Clone(shown)
	known := o.has(broker.CapMessages) // as every session
	return slices.DeleteFunc(l, func(c broker.Capability) bool {
		return !o.has(c) && !(known && slices.Contains(ours, c))
	})
}
