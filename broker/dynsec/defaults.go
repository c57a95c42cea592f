package dynsec

import "signalbox/broker"

// The names of the four types of default access, in the order of responses.
const (
	defaultSend        = "publishClientSend"
	defaultReceive     = "publishClientReceive"
	defaultSubscribe   = "subscribe"
	defaultUnsubscribe = "unsubscribe"
)

// acls returns the defaults in the form of responses: all four, in order.
func (d Defaults) acls() []broker.DefaultACL {
	return []broker.DefaultACL{
		{ACLType: defaultSend, Allow: d.PublishClientSend},
		{ACLType: defaultReceive, Allow: d.PublishClientReceive},
		{ACLType: defaultSubscribe, Allow: d.Subscribe},
		{ACLType: defaultUnsubscribe, Allow: d.Unsubscribe},
	}
}

// set changes the default of a type, in any letter case, if it and the value are known.
func (d *Defaults) set(aclType string, allow arg[bool]) {
	for name, to := range map[string]*bool{
		defaultSend: &d.PublishClientSend, defaultReceive: &d.PublishClientReceive,
		defaultSubscribe: &d.Subscribe, defaultUnsubscribe: &d.Unsubscribe,
	} {
		if equalFold(name, aclType) {
			*to = allow.or(*to)
		}
	}
}
