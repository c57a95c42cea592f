package remote

import (
	"cmp"
	"slices"
	"sync"

	"signalbox/broker"
)

// capabilityOrder is the order in which capabilities are listed.
var capabilityOrder = []broker.Capability{
	broker.CapDynamicSecurity, broker.CapInspect, broker.CapStreams, broker.CapTopicTree, broker.CapTTL,
	broker.CapListeners, broker.CapBridges, broker.CapLicense, broker.CapCluster, broker.CapClientControl,
	broker.CapMessages, broker.CapSubscriptions, broker.CapAccessCheck, broker.CapDenials, broker.CapBans,
}

// offer holds the capabilities of a broker discovered in a session.
type offer struct {
	bridges nameSet // by id

	mu        sync.Mutex          // guards the fields below
	emulated  []broker.Capability // capabilities that this package emulates
	caps      []broker.Capability
	missingBy map[broker.Capability]missingFeature // reasons for those not offered
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
		if !slices.Contains(o.caps, c) && !o.missingBy[c].final {
			o.caps = append(o.caps, c)
		}
	}
}

// addMissing records why a feature is not offered.
func (o *offer) addMissing(l missingFeature) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missingBy == nil {
		o.missingBy = map[broker.Capability]missingFeature{}
	}
	for _, c := range l.caps {
		if !o.missingBy[c].decided {
			o.missingBy[c] = l
		}
	}
	if l.final {
		o.caps = slices.DeleteFunc(o.caps, func(c broker.Capability) bool { return slices.Contains(l.caps, c) })
	}
}

// missing returns why a capability is not offered.
func (o *offer) missing(c broker.Capability) broker.Missing {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l, ok := o.missingBy[c]; ok {
		return broker.Missing{Feature: c, Reason: l.reason, Remedy: l.remedy}
	}
	return broker.Missing{Feature: c, Reason: cmp.Or(notAskedReasons[c], "the broker was not asked for it"), Remedy: remedies[c]}
}

// isDenied reports whether this service's user lacks a right that a capability needs.
func (o *offer) isDenied(c broker.Capability) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.missingBy[c].final
}

// allMissing returns what is neither offered nor emulated.
func (o *offer) allMissing() []broker.Missing {
	missing := []broker.Missing{}
	there := o.list()
	for _, c := range capabilityOrder {
		if !slices.Contains(there, c) {
			missing = append(missing, o.missing(c))
		}
	}
	return missing
}

func (o *offer) has(c broker.Capability) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.caps, c)
}

// list returns the capabilities in order, with emulated ones; it is never nil.
func (o *offer) list() []broker.Capability {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(capabilityOrder), func(c broker.Capability) bool {
		return !slices.Contains(o.caps, c) && !slices.Contains(o.emulated, c)
	})
}
