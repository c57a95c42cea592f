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

// feature is a control topic, what a broker can do that answers on it, and a
// command by which to find out: one that changes nothing.
type feature struct {
	topic string
	caps  []broker.Capability
	probe control.Command
}

func (f feature) response() string { return f.topic + control.ResponseSuffix }

// dynamicSecurity is probed first: it says what this service's user may do.
var dynamicSecurity = feature{dynsec.Topic, []broker.Capability{broker.CapDynamicSecurity, broker.CapAccessCheck}, control.Bare("getDefaultACLAccess")}

// features are the others, in the order in which they are probed. Client control
// has no harmless command; that a command is unknown there says as much.
var features = []feature{
	{control.BrokerTopic, []broker.Capability{broker.CapListeners}, control.ListPlugins()},
	{control.LicenseTopic, []broker.Capability{broker.CapLicense}, control.GetLicenseInformation()},
	{control.InspectTopic, []broker.Capability{broker.CapInspect}, control.ListClients(false, 1, 0)},
	{control.StreamTopic, []broker.Capability{broker.CapStreams}, control.ListStreams(false, 1, 0)},
	{control.TopicTreeTopic, []broker.Capability{broker.CapTopicTree, broker.CapTTL}, control.GetTTL()},
	{control.HATopic, []broker.Capability{broker.CapCluster}, control.Bare("isLeader")},
	{control.ClientControlTopic, []broker.Capability{broker.CapClientControl}, control.Bare("probe")},
}

// maxLosses is how often a connection may be lost to the same step of an
// exploration before that step is left out: once may be chance.
const maxLosses = 2

// exploration finds out what a broker offers, on a session that has just begun.
type exploration struct {
	*Broker
	session *session
	silent  []*probe // to be answered later, if at all
}

// explore subscribes and finds out what the broker offers, one topic at a time: a
// broker may end the connection on a subscription or a message that it does not
// allow, and then it must be known which one it was. A loss is counted, and after
// maxLosses the topic is left alone, as not offered. What has not been answered
// when this returns may still be, and counts from then on.
func (b *Broker) explore(ctx context.Context, s *session) *failure {
	limited, cancel := context.WithTimeout(ctx, b.timing.answer)
	defer cancel()
	b.sys.renew()
	if err := s.fence(limited); err != nil { // a loss from here on is due to what is tried
		return &failure{Stage: subscribing, Err: err}
	}
	e := &exploration{Broker: b, session: s}
	if f := e.run(limited); f != nil {
		return f
	}
	for _, p := range e.silent {
		b.finishLater(ctx, s, p)
	}
	return nil
}

func (e *exploration) run(ctx context.Context) *failure {
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

// allowed returns the features that this service's user may ask about. It notes the
// others before anything is known of them.
func (e *exploration) allowed(ctx context.Context) []feature {
	e.session.may = e.rights(ctx)
	return slices.DeleteFunc(slices.Clone(features), func(f feature) bool {
		v := e.session.may(f.topic)
		if !v.Allowed {
			e.session.offered.lacks(e.forbidden(f, v))
		}
		return !v.Allowed
	})
}

// step does something on which the broker may end the connection, unless it has
// done so before.
func (e *exploration) step(topic string, do func() error) *failure {
	if e.losses[topic] >= maxLosses {
		return nil
	}
	if e.session.over() { // not due to this step
		return &failure{Stage: subscribing, Err: errLost}
	}
	err := do()
	switch {
	case errors.Is(err, errLost):
		e.losses[topic]++
		return &failure{Stage: probing, Err: err}
	case errors.Is(err, errUnconfirmed):
		return &failure{Stage: probing, Err: err}
	}
	return nil
}

// try probes a feature.
func (e *exploration) try(ctx context.Context, f feature) *failure {
	if e.losses[f.topic] >= maxLosses {
		e.session.offered.lacks(e.costly(f))
	}
	return e.step(f.topic, func() error {
		if err := e.session.subscribe(ctx, f.response()); err != nil {
			e.session.offered.lacks(e.unheard(f))
			return err
		}
		p := e.begin(e.session, f, e.graceFor(f))
		err := p.await(ctx, e.session)
		switch {
		case errors.Is(err, errNoEndpoint):
			e.session.offered.lacks(e.absent(f))
		case errors.Is(err, errNoAnswer):
			e.session.offered.lacks(e.unanswered(f))
			e.silent = append(e.silent, p)
		}
		return err
	})
}

// graceFor is how long to wait for an answer that did not come in order: only
// dynamic security is worth it, and a Mosquitto answers in order.
func (e *exploration) graceFor(f feature) time.Duration {
	if f.topic != dynsec.Topic || isMosquitto(e.sys.version()) {
		return 0
	}
	return e.timing.grace
}

func isMosquitto(version string) bool { return strings.HasPrefix(version, "mosquitto") }

// conclude asks dynamic security once more, if it is there: a broker that does not
// answer a PINGREQ in order answers its commands in order.
func (e *exploration) conclude(ctx context.Context) *failure {
	if len(e.silent) == 0 || !e.session.offered.has(broker.CapDynamicSecurity) || isMosquitto(e.sys.version()) {
		return nil
	}
	last := e.begin(e.session, dynamicSecurity, e.timing.grace)
	if err := last.await(ctx, e.session); errors.Is(err, errLost) || errors.Is(err, errUnconfirmed) {
		return &failure{Stage: subscribing, Err: err}
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
		defer s.pending.remove(p.call)
		late := time.NewTimer(b.timing.answer)
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

// probe is a feature that has been asked for.
type probe struct {
	feature
	call *call
}

// begin sends the question. There is room for it: the session has just begun.
func (b *Broker) begin(s *session, f feature, grace time.Duration) *probe {
	correlation := b.correlation(context.Background())
	c := newCall(f.topic, correlation, f.probe.Encode(correlation))
	c.probe, c.grace = true, grace
	s.pending.add(c)
	s.out <- c
	return &probe{feature: f, call: c}
}

// await waits for the answer. Any answer will do, an error too: the broker knows
// the topic. Where there is none, the call stays pending.
func (p *probe) await(ctx context.Context, s *session) error {
	payload, err := s.await(ctx, p.call)
	if !errors.Is(err, errNoAnswer) {
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
	if topic == dynamicSecurity.topic {
		return dynamicSecurity.caps
	}
	i := slices.IndexFunc(features, func(f feature) bool { return f.topic == topic })
	if i < 0 {
		return nil
	}
	return features[i].caps
}
