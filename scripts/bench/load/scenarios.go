//go:build linux

package load

import (
	"fmt"
	"strings"
)

// Scenario is a load with a name.
type Scenario struct {
	Name     string
	Title    string // as readers of the results know it
	Load     Load
	Messages int // messages of one round, which takes a second or two
}

// The number of roles of each publisher in the load of rights, and of ACLs in each
// role; every ACL allows one topic.
const (
	RolesEach = 10
	ACLsEach  = 100
)

// RightsPublishers is how many publishers the load of rights has.
const RightsPublishers = 50

// Crowd is how many publishers the loads of a crowd have.
const Crowd = 8_000

// RightsUser returns the username of a publisher in the load of rights.
func RightsUser(n int) string { return fmt.Sprintf("publisher-%02d", n) }

// Durable is the load of publishers that wait for the commit of each message.
var Durable = Flow{Publishers: 64, Subscribers: 1, Topics: 1, QoS: 1, Window: 1, Keep: true}

// Scenarios returns the loads that every broker supports, except idle clients.
func Scenarios() []Scenario {
	fanIn := Flow{Publishers: 10, Subscribers: 1, Topics: 1}
	fanOut := Flow{Publishers: 1, Subscribers: 200, Topics: 1}
	pairs := Flow{Publishers: 50, Subscribers: 50, Topics: 50}
	crowd := Flow{Publishers: Crowd, Subscribers: 1, Topics: 1}
	return []Scenario{
		{Name: "fan-in-0", Title: "10 publishers → 1 subscriber, QoS 0", Load: fanIn.with(0), Messages: 200_000},
		{Name: "fan-in-1", Title: "10 publishers → 1 subscriber, QoS 1", Load: fanIn.with(1), Messages: 100_000},
		{Name: "fan-in-2", Title: "10 publishers → 1 subscriber, QoS 2", Load: fanIn.with(2), Messages: 50_000},
		{Name: "fan-out-0", Title: "1 publisher → 200 subscribers, QoS 0", Load: fanOut.with(0), Messages: 1_200},
		{Name: "fan-out-1", Title: "1 publisher → 200 subscribers, QoS 1", Load: fanOut.with(1), Messages: 800},
		{Name: "pairs-0", Title: "50 pairs, QoS 0", Load: pairs.with(0), Messages: 200_000},
		{Name: "pairs-1", Title: "50 pairs, QoS 1", Load: pairs.with(1), Messages: 100_000},
		{Name: "latency", Title: "50 pairs, QoS 0, 5,000 messages a second", Load: pairs.with(0).at(5_000), Messages: 15_000},
		{Name: "crowd-0", Title: "8,000 publishers, 1 message a second each → 1 subscriber, QoS 0", Load: crowd.with(0).at(Crowd), Messages: 24_000},
		{Name: "crowd-1", Title: "8,000 publishers, 1 message a second each → 1 subscriber, QoS 1", Load: crowd.with(1).at(Crowd), Messages: 24_000},
		{Name: "rights", Title: "50 publishers with 10 roles × 100 ACLs each, QoS 0", Load: rights(), Messages: 150_000},
		{Name: "retained", Title: "100,000 retained messages, then #", Load: Retained{Topics: 100_000}, Messages: 100_000},
		{Name: "backlog", Title: "50,000 messages of QoS 1 to an offline session, then drained", Load: Backlog{}, Messages: 50_000},
		{Name: "durable", Title: "64 publishers, QoS 1, persistent subscriber", Load: Durable, Messages: 50_000},
	}
}

func all() []Scenario { return append(Scenarios(), Streams()...) }

// Names returns the names of all loads.
func Names() (list []string) {
	for _, e := range all() {
		list = append(list, e.Name)
	}
	return list
}

// Find returns the load with that name.
func Find(name string) (Scenario, error) {
	for _, e := range all() {
		if e.Name == name {
			return e, nil
		}
	}
	return Scenario{}, fmt.Errorf("there is no load %q; there are %s", name, strings.Join(Names(), ", "))
}

// The windows of publishers. For QoS 1 and 2 it is the default receive maximum of the
// brokers.
const (
	windowFree  = 100
	windowAcked = 20
)

func (f Flow) with(qos byte) Flow {
	if f.QoS, f.Window = qos, windowAcked; qos == 0 {
		f.Window = windowFree
	}
	return f
}

func (f Flow) at(rate int) Flow {
	f.Rate = rate
	return f
}

// rights returns a flow of pairs whose publishers cycle through topics that different
// roles of theirs allow.
func rights() Flow {
	return Flow{Publishers: RightsPublishers, Subscribers: RightsPublishers, Topics: RightsPublishers,
		Window: windowFree, Paths: RolesEach * ACLsEach, Username: RightsUser}
}
