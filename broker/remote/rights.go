package remote

import (
	"context"
	"fmt"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// judge tells whether this service's user may publish to a topic, and why not.
type judge func(topic string) broker.Verdict

// anything is the judge where nothing is known of rights.
func anything(string) broker.Verdict { return broker.Verdict{Allowed: true} }

// rights returns a judge by what dynamic security holds about this service's user.
// A denied message costs the connection on some brokers, so that it is better not
// sent.
func (e *exploration) rights(ctx context.Context) judge {
	if !e.session.offered.has(broker.CapDynamicSecurity) {
		return anything
	}
	return e.judge(ctx, func(ctx context.Context, c dynsec.Command) (dynsec.Answer, error) {
		return e.performOn(ctx, e.session, c)
	})
}

// judge fetches the rights of this service's user by way of ask.
func (b *Broker) judge(ctx context.Context, ask func(context.Context, dynsec.Command) (dynsec.Answer, error)) judge {
	if b.username == "" || b.hasCertificate() {
		return anything
	}
	r := recordReader{ask: ask}
	if err := r.read(ctx, b.username); err != nil || r.Client == nil {
		return anything
	}
	openDollarTopics(r.Roles)
	return func(topic string) broker.Verdict {
		return dynsec.Explain(broker.AccessCheck{Username: b.username, Action: broker.ActionPublish, Topic: topic}, r.Records)
	}
}

// mayPublish says why this service's user may not publish to a topic. Rights that
// deny it are fetched once more: they may have changed since the session began.
func (b *Broker) mayPublish(ctx context.Context, op, topic string) error {
	s, err := b.link.current(ctx)
	if err != nil {
		return b.unavailable(op, err)
	}
	if strings.HasPrefix(topic, "$") || s.may(topic).Allowed { // of $ topics versions of Mosquitto judge differently
		return nil
	}
	v := b.judge(ctx, b.perform)(topic)
	if v.Allowed {
		return nil
	}
	return &broker.Error{Kind: broker.Denied, Op: op, Msg: fmt.Sprintf("%s may not publish to %q (%s): give it a role that allows publishClientSend for this topic",
		whom(b.username), topic, v.Reason)}
}

// hasCertificate reports whether this service shows a certificate, from which the
// broker may take another username.
func (b *Broker) hasCertificate() bool {
	return b.endpoint.TLS != nil && len(b.endpoint.TLS.Certificates) > 0
}

// openDollarTopics has patterns that begin with a wildcard cover control topics, as
// Mosquitto 2.0 takes them and the evaluator does not.
func openDollarTopics(roles map[string]broker.Role) {
	for name, role := range roles {
		for _, acl := range role.ACLs {
			if rest, ok := strings.CutPrefix(acl.Topic, "+"); ok {
				acl.Topic = "$CONTROL" + rest
			} else if acl.Topic == "#" {
				acl.Topic = "$CONTROL/#"
			} else {
				continue
			}
			if acl.Allow {
				role.ACLs = append(role.ACLs[:len(role.ACLs):len(role.ACLs)], acl)
			}
		}
		roles[name] = role
	}
}
