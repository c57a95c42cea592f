package remote

import (
	"context"
	"errors"
	"slices"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
)

// feature is a control topic, what a broker can do that answers on it, and a
// command by which to find out: one that changes nothing.
type feature struct {
	topic string
	caps  []broker.Capability
	probe control.Command
}

// features are in the order in which they are probed. Dynamic security comes
// last: a broker answers in order, so with its answer the others are there.
// Client control has no harmless command; that a command is unknown there
// says as much.
var features = []feature{
	{control.BrokerTopic, []broker.Capability{broker.CapListeners}, control.ListPlugins()},
	{control.LicenseTopic, []broker.Capability{broker.CapLicense}, control.GetLicenseInformation()},
	{control.InspectTopic, []broker.Capability{broker.CapInspect}, control.ListClients(false, 1, 0)},
	{control.StreamTopic, []broker.Capability{broker.CapStreams}, control.ListStreams(false, 1, 0)},
	{control.TopicTreeTopic, []broker.Capability{broker.CapTopicTree, broker.CapTTL}, control.GetTTL()},
	{"$CONTROL/cedalo/ha/v1", []broker.Capability{broker.CapCluster}, control.Bare("isLeader")},
	{control.ClientControlTopic, []broker.Capability{broker.CapClientControl}, control.Bare("probe")},
	{dynsec.Topic, []broker.Capability{broker.CapDynamicSecurity, broker.CapAccessCheck}, control.Bare("getDefaultACLAccess")},
}

// topics are what a session subscribes to: the answers to each feature one by
// one, because a user's rights may not cover a wildcard, and the $SYS tree.
func topics() []string {
	all := []string{sysPrefix + "#"}
	for _, f := range features {
		all = append(all, f.topic+control.ResponseSuffix)
	}
	return all
}

// explore subscribes and finds out what the broker offers. It returns when
// dynamic security has answered or turned out to be unknown; a broker that
// says nothing at all cannot be managed. The others that have not answered by
// then may still do so, and count from then on.
func (b *Broker) explore(ctx context.Context, s *session) *failure {
	limited, cancel := context.WithTimeout(ctx, b.timing.answer)
	defer cancel()
	b.sys.renew()
	refused, err := s.subscribe(limited, topics())
	if err == nil && slices.Contains(refused, dynsec.ResponseTopic) {
		err = errNotAllowed
	}
	if err != nil {
		return &failure{Stage: subscribing, Err: err}
	}
	var probes []*probe
	for _, f := range features {
		if !slices.Contains(refused, f.topic+control.ResponseSuffix) {
			probes = append(probes, b.begin(s, f))
		}
	}
	last := len(probes) - 1
	if err := probes[last].finish(limited, s); err != nil && !errors.Is(err, errNoEndpoint) {
		return &failure{Stage: probing, Err: err}
	}
	for _, p := range probes[:last] {
		b.finishLater(ctx, s, p)
	}
	return nil
}

// finishLater takes what has come by now and leaves the rest to a goroutine of
// the session.
func (b *Broker) finishLater(ctx context.Context, s *session, p *probe) {
	select {
	case r := <-p.call.reply:
		s.pending.remove(p.call)
		p.conclude(r, s)
		return
	default:
	}
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, b.timing.answer)
		defer cancel()
		p.finish(ctx, s) //nolint:errcheck // no answer is an answer
	})
}

// probe is a feature that has been asked for.
type probe struct {
	feature
	call *call
}

// begin sends the question. There is room for it: the session has just begun,
// and there are fewer features than places in the queue.
func (b *Broker) begin(s *session, f feature) *probe {
	correlation := b.correlation(context.Background())
	c := newCall(f.topic, correlation, f.probe.Encode(correlation))
	c.grace, c.qos = b.timing.grace, 1
	s.pending.add(c)
	s.out <- c
	return &probe{feature: f, call: c}
}

// finish waits for the answer. Any answer will do, an error too: somebody is
// there.
func (p *probe) finish(ctx context.Context, s *session) error {
	defer s.pending.remove(p.call)
	payload, err := s.await(ctx, p.call)
	p.conclude(reply{payload: payload, err: err}, s)
	return err
}

func (p *probe) conclude(r reply, s *session) {
	if r.err != nil {
		return
	}
	s.offered.add(p.caps...)
	if p.topic == control.BrokerTopic {
		s.offered.learn(r.payload, p.call.correlation)
	}
}

// learn reads listPlugins' answer.
func (o *offer) learn(payload []byte, correlation string) {
	var data control.Plugins
	if control.Read(payload, correlation, &data) != nil {
		return
	}
	for _, b := range bridgesOf(data) {
		o.bridges.add(b.ID)
	}
	o.add(capsOfPlugins(data)...)
}

// capsOfPlugins gives what each plugin's control topics stand for. A broker that
// lists its plugins need not be slow to answer for them to be known, and bridges
// are known by nothing else.
func capsOfPlugins(data control.Plugins) (caps []broker.Capability) {
	if len(bridgesOf(data)) > 0 {
		caps = append(caps, broker.CapBridges)
	}
	for _, p := range data.Plugins {
		for _, topic := range p.Endpoints {
			caps = append(caps, capsOf(topic)...)
		}
	}
	return caps
}

func capsOf(topic string) []broker.Capability {
	i := slices.IndexFunc(features, func(f feature) bool { return f.topic == topic })
	if i < 0 {
		return nil
	}
	return features[i].caps
}
