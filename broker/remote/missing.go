package remote

import (
	"fmt"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// lack is why a feature is not offered: all its capabilities share reason and
// remedy. A final one is not changed by what the broker says of itself.
type lack struct {
	feature
	reason, remedy string
	final          bool
	decided        bool // by the number of connections; what is probed changes nothing in the reason
}

// unanswered is about a topic on which the broker processes a request and stays
// silent, as Mosquitto 2.0 does without a plugin and towards users without rights.
func (e *exploration) unanswered(f feature) lack {
	l := e.absent(f)
	l.reason = "the broker does not answer on " + f.topic
	if f.topic != dynsec.Topic {
		return l
	}
	l.reason += fmt.Sprintf(": it has no dynamic security plugin, or does not allow %s to publish there", whom(e.username))
	return l
}

// absent is about a topic that the broker does not know.
func (e *exploration) absent(f feature) lack {
	return lack{feature: f, reason: "the broker offers nothing on " + f.topic, remedy: e.remedy(f)}
}

// unheard is about answers that the broker does not let this service receive.
func (e *exploration) unheard(f feature) lack {
	return lack{feature: f, final: true, reason: fmt.Sprintf("%s may not subscribe to %s", whom(e.username), f.response()),
		remedy: "give it a role that allows subscribePattern and publishClientReceive for $CONTROL/#"}
}

// forbidden is about a topic to which rights do not let this service publish.
func (e *exploration) forbidden(f feature, v broker.Verdict) lack {
	return lack{feature: f, final: true, reason: fmt.Sprintf("%s may not publish to %s (%s)", whom(e.username), f.topic, v.Reason),
		remedy: fmt.Sprintf("give it a role that allows publishClientSend for %s, and save the connection again; %s", f.topic, e.remedy(f))}
}

// costly is about a topic on which the broker ends the connection.
func (e *exploration) costly(f feature) lack {
	return lack{feature: f, final: true, reason: fmt.Sprintf("the broker ends the connection when %s asks on %s", whom(e.username), f.topic),
		remedy: fmt.Sprintf("allow it to publish to %s and to subscribe to %s; a Mosquitto does so to whoever may not where max_queued_messages is 0, "+
			"and to everybody where max_packet_size is small; then save the connection again", f.topic, f.response())}
}

// dynsecLines load the plugin into a Mosquitto.
const dynsecLines = `
per_listener_settings false
plugin /usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so
plugin_opt_config_file /var/lib/mosquitto/dynamic-security.json`

// remedy says what makes a broker offer a feature.
func (e *exploration) remedy(f feature) string {
	if f.topic == dynsec.Topic {
		return e.dynsecRemedy()
	}
	return remedies[f.caps[0]]
}

func (e *exploration) dynsecRemedy() string {
	const load = "make the file with `mosquitto_ctrl dynsec init`, add these lines to mosquitto.conf, with the plugin's path on that machine, and restart it:" + dynsecLines
	version := e.sys.version()
	switch {
	case isMosquitto(version):
		return load
	case version != "":
		return fmt.Sprintf("manage the access control of %q with its own tools; only Mosquitto, with its dynamic security plugin, and signalbox offer theirs over MQTT", version)
	}
	return "if it is a Mosquitto, " + load + "\nAny other broker's access control is managed with its own tools"
}

const needsCedalo = "Cedalo's edition of Mosquitto and signalbox offer it"

// remedies are what makes a broker offer what it does not, by the capability.
var remedies = map[broker.Capability]string{
	broker.CapListeners:     "Mosquitto lists its listeners from version 2.1 on",
	broker.CapLicense:       "there is nothing to do: " + needsCedalo + ", other brokers have no licence to show",
	broker.CapInspect:       needsCedalo,
	broker.CapStreams:       needsCedalo,
	broker.CapBridges:       needsCedalo,
	broker.CapTopicTree:     "set the connection's member topictree to true: the tree is then made of what the broker publishes",
	broker.CapTTL:           "set the connection's member topictree to true",
	broker.CapCluster:       needsCedalo,
	broker.CapClientControl: needsCedalo,
	broker.CapSubscriptions: "ask the signalbox in whose process the broker runs",
	broker.CapDenials:       "read the broker's log",
	broker.CapBans:          "disable the client where the broker has dynamic-security, or close the way to it in the network",
}

// unasked are the reasons where the broker was not asked.
var unasked = map[broker.Capability]string{
	broker.CapSubscriptions: "no broker tells over MQTT who is subscribed",
	broker.CapDenials:       "no broker tells over MQTT what it denied",
	broker.CapBans:          "no broker takes bans over MQTT",
	broker.CapTopicTree:     "the broker keeps no topic tree, and the connection's member topictree forbids making one",
	broker.CapTTL:           "the broker keeps no topic tree, and the connection's member topictree forbids making one",
	broker.CapBridges:       "the broker has no bridge plugin",
	broker.CapStreams:       "the broker has no stream plugin",
}
