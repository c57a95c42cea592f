package remote

import (
	"fmt"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// missingFeature is why a feature is not offered; reason and remedy are the same for all its
// capabilities. A final one is not overridden by what the broker reports.
type missingFeature struct {
	feature
	reason, remedy string
	final          bool
	decided        bool // by the number of connections; discovery does not change the reason
}

// noResponse is for a topic on which the broker processes requests without a response, as
// Mosquitto 2.0 does without a plugin and to users without rights.
func (e *discovery) noResponse(f feature) missingFeature {
	l := e.unknownTopic(f)
	l.reason = "the broker does not answer on " + f.topic
	if f.topic != dynsec.Topic {
		return l
	}
	l.reason += fmt.Sprintf(": it has no dynamic security plugin, or does not allow %s to publish there", describeUser(e.username))
	return l
}

// unknownTopic is for a topic that the broker does not know.
func (e *discovery) unknownTopic(f feature) missingFeature {
	return missingFeature{feature: f, reason: "the broker offers nothing on " + f.topic, remedy: e.remedy(f)}
}

// subscribeDenied is for responses that this service may not receive.
func (e *discovery) subscribeDenied(f feature) missingFeature {
	return missingFeature{feature: f, final: true, reason: fmt.Sprintf("%s may not subscribe to %s", describeUser(e.username), f.response()),
		remedy: "give it a role that allows subscribePattern and publishClientReceive for $CONTROL/#"}
}

// publishDenied is for a topic that this service may not publish to.
func (e *discovery) publishDenied(f feature, v broker.Verdict) missingFeature {
	return missingFeature{feature: f, final: true, reason: fmt.Sprintf("%s may not publish to %s (%s)", describeUser(e.username), f.topic, v.Reason),
		remedy: fmt.Sprintf("give it a role that allows publishClientSend for %s, and save the connection again; %s", f.topic, e.remedy(f))}
}

// connectionLost is for a topic on which the broker closes the connection.
func (e *discovery) connectionLost(f feature) missingFeature {
	return missingFeature{feature: f, final: true, reason: fmt.Sprintf("the broker ends the connection when %s asks on %s", describeUser(e.username), f.topic),
		remedy: fmt.Sprintf("allow it to publish to %s and to subscribe to %s; a Mosquitto does so to whoever may not where max_queued_messages is 0, "+
			"and to everybody where max_packet_size is small; then save the connection again", f.topic, f.response())}
}

// dynsecLines load the plugin in Mosquitto.
const dynsecLines = `
per_listener_settings false
plugin /usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so
plugin_opt_config_file /var/lib/mosquitto/dynamic-security.json`

// remedy returns how to make a broker offer a feature.
func (e *discovery) remedy(f feature) string {
	if f.topic == dynsec.Topic {
		return e.dynsecRemedy()
	}
	return remedies[f.caps[0]]
}

func (e *discovery) dynsecRemedy() string {
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

// remedies are instructions by capability.
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

// notAskedReasons are the reasons for capabilities that are not discovered.
var notAskedReasons = map[broker.Capability]string{
	broker.CapSubscriptions: "no broker tells over MQTT who is subscribed",
	broker.CapDenials:       "no broker tells over MQTT what it denied",
	broker.CapBans:          "no broker takes bans over MQTT",
	broker.CapTopicTree:     "the broker keeps no topic tree, and the connection's member topictree forbids making one",
	broker.CapTTL:           "the broker keeps no topic tree, and the connection's member topictree forbids making one",
	broker.CapBridges:       "the broker has no bridge plugin",
	broker.CapStreams:       "the broker has no stream plugin",
}
