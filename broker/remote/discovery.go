package remote

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
)

// feature is a control topic, the capabilities of a broker that responds on it, and a command
// without effect to find out.
type feature struct {
	topic string
	caps  []broker.Capability
	probe control.Command
}

func (f feature) response() string { return f.topic + control.ResponseSuffix }

// dynamicSecurity is probed first, because it determines the rights of this service's user.
var dynamicSecurity = feature{dynsec.Topic, []broker.Capability{broker.CapDynamicSecurity, broker.CapAccessCheck}, control.Bare("getDefaultACLAccess")}

// features are the others, in the order of probing. Client control has no command without
// effect; an error for an unknown command suffices.
var features = []feature{
	{control.BrokerTopic, []broker.Capability{broker.CapListeners}, control.ListPlugins()},
	{control.LicenseTopic, []broker.Capability{broker.CapLicense}, control.GetLicenseInformation()},
	{control.InspectTopic, []broker.Capability{broker.CapInspect}, control.ListClients(false, 1, 0)},
	{control.StreamTopic, []broker.Capability{broker.CapStreams}, control.ListStreams(false, 1, 0)},
	{control.TopicTreeTopic, []broker.Capability{broker.CapTopicTree, broker.CapTTL}, control.GetTTL()},
	{control.HATopic, []broker.Capability{broker.CapCluster}, control.Bare("isLeader")},
	{control.ClientControlTopic, []broker.Capability{broker.CapClientControl}, control.Bare("probe")},
}

// maxLosses is how many connections may be lost to a step of the discovery before it is
// skipped: one may be chance.
const maxLosses = 2

// discovery finds out what a broker offers, at the beginning of a session.
type discovery struct {
	*Broker
	session    *session
	unanswered []*probe // to be answered later, if at all
}

// discover subscribes and finds out what the broker offers, one topic at a time: a broker may
// close the connection on a denied subscription or message, and the cause must be known. After
// maxLosses the topic counts as not offered. Late responses are still accepted.
func (b *Broker) discover(ctx context.Context, s *session) *failure {
	limited, cancel := context.WithTimeout(ctx, b.timing.responseTimeout)
	defer cancel()
	b.sys.renew()
	if err := s.barrier(limited); err != nil { // a loss after this is due to the discovery
		return &failure{Stage: preparing, Err: err}
	}
	e := &discovery{Broker: b, session: s}
	if f := e.run(limited); f != nil {
		return f
	}
	for _, p := range e.unanswered {
		b.finishLater(ctx, s, p)
	}
	return nil
}

func (e *discovery) run(ctx context.Context) *failure {
	f := e.step(sysPrefix+"#", func() error { return e.session.subscribe(ctx, sysPrefix+"#") })
	if f != nil {
		return f
	}
	if f := e.try(ctx, dynamicSecurity); f != nil {
		return f
	}
	for _, feature := range e.allowed(ctx) {
		if f := e.try(ctx, feature); f != nil {
			return f
		}
	}
	return e.conclude(ctx)
}

// allowed returns the features that this service's user may use, and records the others as
// missing.
func (e *discovery) allowed(ctx context.Context) []feature {
	e.session.mayPublish = e.publishRights(ctx)
	return slices.DeleteFunc(slices.Clone(features), func(f feature) bool {
		v := e.session.mayPublish(f.topic)
		if !v.Allowed {
			e.session.offered.addMissing(e.publishDenied(f, v))
		}
		return !v.Allowed
	})
}

// step runs a function on which the broker may close the connection, unless it has done so
// before.
func (e *discovery) step(topic string, do func() error) *failure {
	if e.losses[topic] >= maxLosses {
		return nil
	}
	if e.session.ended() { // not due to this step
		return &failure{Stage: preparing, Err: errLost}
	}
	err := do()
	switch {
	case errors.Is(err, errLost):
		e.losses[topic]++
		return &failure{Stage: discovering, Err: err}
	case errors.Is(err, errUnconfirmed):
		return &failure{Stage: discovering, Err: err}
	}
	return nil
}

// try probes a feature. It is missing if the broker refuses its topic (errNoEndpoint), or has
// processed the command and not responded (errNoResponse); see call.go.
func (e *discovery) try(ctx context.Context, f feature) *failure {
	if e.losses[f.topic] >= maxLosses {
		e.session.offered.addMissing(e.connectionLost(f))
	}
	return e.step(f.topic, func() error {
		if err := e.session.subscribe(ctx, f.response()); err != nil {
			e.session.offered.addMissing(e.subscribeDenied(f))
			return err
		}
		p := e.begin(e.session, f, e.graceFor(f))
		err := p.await(ctx, e.session)
		switch {
		case errors.Is(err, errNoEndpoint):
			e.session.offered.addMissing(e.unknownTopic(f))
		case errors.Is(err, errNoResponse):
			e.session.offered.addMissing(e.noResponse(f))
			e.unanswered = append(e.unanswered, p)
		}
		return err
	})
}

// graceFor returns how long to wait for a response out of order: only for dynamic security,
// and not with Mosquitto, which responds in order.
func (e *discovery) graceFor(f feature) time.Duration {
	if f.topic != dynsec.Topic || isMosquitto(e.sys.version()) {
		return 0
	}
	return e.timing.grace
}

func isMosquitto(version string) bool { return strings.HasPrefix(version, "mosquitto") }

// conclude probes dynamic security once more if it is offered: a broker that does not process
// PINGREQ in order processes its commands in order.
func (e *discovery) conclude(ctx context.Context) *failure {
	if len(e.unanswered) == 0 || !e.session.offered.has(broker.CapDynamicSecurity) || isMosquitto(e.sys.version()) {
		return nil
	}
	last := e.begin(e.session, dynamicSecurity, e.timing.grace)
	if err := last.await(ctx, e.session); errors.Is(err, errLost) || errors.Is(err, errUnconfirmed) {
		return &failure{Stage: preparing, Err: err}
	}
	return nil
}

// finishLater handles a response that has arrived, or waits for it on a goroutine of the
// session.
func (b *Broker) finishLater(ctx context.Context, s *session, p *probe) {
	select {
	case r := <-p.call.reply:
		s.pending.remove(p.call)
		p.conclude(r, s)
		return
	default:
	}
	s.wg.Go(func() {
		defer s.pending.remove(p.call)
		late := time.NewTimer(b.timing.responseTimeout)
		defer late.Stop()
		select {
		case r := <-p.call.reply:
			p.conclude(r, s)
		case <-s.lost:
		case <-late.C:
		case <-ctx.Done():
		}
	})
}

// probe is a feature whose command was sent.
type probe struct {
	feature
	call *call
}

// begin sends the command. The queue has space at the beginning of a session.
func (b *Broker) begin(s *session, f feature, grace time.Duration) *probe {
	correlation := b.correlation(context.Background())
	c := newCall(f.topic, correlation, f.probe.Encode(correlation))
	c.probe, c.grace = true, grace
	s.pending.add(c)
	s.out <- c
	return &probe{feature: f, call: c}
}

// await waits for the response. Any response means that the broker knows the topic, an error
// as well. Without one the call stays pending.
func (p *probe) await(ctx context.Context, s *session) error {
	payload, err := s.await(ctx, p.call)
	if !errors.Is(err, errNoResponse) {
		s.pending.remove(p.call)
	}
	p.conclude(reply{payload: payload, err: err}, s)
	return err
}

func (p *probe) conclude(r reply, s *session) {
	if r.err != nil {
		return
	}
	s.offered.add(p.caps...)
	if p.topic == control.BrokerTopic {
		s.offered.addPlugins(r.payload, p.call.correlation)
	}
}

// addPlugins decodes the response to listPlugins.
func (o *offer) addPlugins(payload []byte, correlation string) {
	var data control.Plugins
	if control.Read(payload, correlation, &data) != nil {
		return
	}
	for _, b := range bridgesOf(data) {
		o.bridges.add(b.ID)
	}
	o.add(capsOfPlugins(data)...)
}

// capsOfPlugins returns the capabilities of the plugins' control topics. So late responses are
// not needed, and bridges are known by nothing else.
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
	if topic == dynamicSecurity.topic {
		return dynamicSecurity.caps
	}
	i := slices.IndexFunc(features, func(f feature) bool { return f.topic == topic })
	if i < 0 {
		return nil
	}
	return features[i].caps
}
