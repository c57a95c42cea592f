package appliance

import "signalbox/broker/bridges"

// bridgeKinds are the kinds of bridges that there can be.
func (a *Appliance) bridgeKinds() []bridges.Kind {
	return []bridges.Kind{}
}
