package remote

import (
	"context"
	"fmt"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// publishCheck returns whether this service's user may publish to a topic, and why not.
type publishCheck func(topic string) broker.Verdict

// allowAll is the check if the rights are unknown.
func allowAll(string) broker.Verdict { return broker.Verdict{Allowed: true} }

// publishRights returns a check by the broker's dynamic security. A denied message costs the
// connection on some brokers, so it is better not sent.
func (e *discovery) publishRights(ctx context.Context) publishCheck {
	if !e.session.offered.has(broker.CapDynamicSecurity) {
		return allowAll
	}
	return e.publishCheck(ctx, func(ctx context.Context, c dynsec.Command) (dynsec.Response, error) {
		return e.performOn(ctx, e.session, c)
	})
}

// publishCheck fetches the rights of this service's user.
func (b *Broker) publishCheck(ctx context.Context, ask func(context.Context, dynsec.Command) (dynsec.Response, error)) publishCheck {
	if b.username == "" || b.hasCertificate() {
		return allowAll
	}
	r := recordReader{ask: ask}
	if err := r.read(ctx, b.username); err != nil || r.Client == nil {
		return allowAll
	}
	extendToControlTopics(r.Roles)
	return func(topic string) broker.Verdict {
		return dynsec.Explain(broker.AccessCheck{Username: b.username, Action: broker.ActionPublish, Topic: topic}, r.Records)
	}
}

// mayPublish returns an error if this service's user may not publish to a topic. Rights that
// deny it are fetched again: they may have changed since the session began.
func (b *Broker) mayPublish(ctx context.Context, op, topic string) error {
	s, err := b.link.current(ctx)
	if err != nil {
		return b.unavailable(op, err)
	}
	if strings.HasPrefix(topic, "$") || s.mayPublish(topic).Allowed { // versions of Mosquitto differ for $ topics
		return nil
	}
	v := b.publishCheck(ctx, b.perform)(topic)
	if v.Allowed {
		return nil
	}
	return &broker.Error{Kind: broker.Denied, Op: op, Msg: fmt.Sprintf("%s may not publish to %q (%s): give it a role that allows publishClientSend for this topic",
		describeUser(b.username), topic, v.Reason)}
}

// hasCertificate reports whether a client certificate is used, from which the broker may take
// another username.
func (b *Broker) hasCertificate() bool {
	return b.endpoint.TLS != nil && len(b.endpoint.TLS.Certificates) > 0
}

// extendToControlTopics makes patterns that begin with a wildcard cover control topics, as
// Mosquitto 2.0 does and the evaluator does not.
func extendToControlTopics(roles map[string]broker.Role) {
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
