package control

import (
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// reads and changes are the commands of the control topics but dynamic security. A command that
// is in neither is not executed, so that none can be forgotten here.
var (
	reads = byLowerName(opListPlugins, opListListeners, opGetLicense, opListClients, opGetClient, opListTopics, opGetTTL,
		opListStreams, opGetStream, opCountStreamMessages, opGetStreamLicense, opGetBridgeConfig, opGetBridgeStatus,
		opGetBridgeSchema, opTestBridge, opListDeadLetters, opGetCluster, opGetRaftStatus, opIsLeader, "topicCount", "listFilters", "getLimits")
	changes = byLowerName(opDisconnectClient, opSubscribeClient, opUnsubscribeClient, opSetTTL, opCreateStream, opModifyStream,
		opDeleteStream, opEnableStream, opDisableStream, opClearStreamMessages, opReplayStream, opStopStreamReplay,
		opUpdateBridgeConfig, opRetryDeadLetters, opDeleteDeadLetters, opCreateCluster, opJoinCluster, opAddNode, opRemoveNode,
		opLeaveCluster, opDeleteCluster, opSetLeader, opDrainNode, opUndrainNode, opUndoJoin,
		"addFilter", "removeFilter", "clearFilters", "setLimits")
)

// byLowerName returns names by their form in lower case.
func byLowerName(names ...string) map[string]string {
	m := make(map[string]string, len(names))
	for _, name := range names {
		m[strings.ToLower(name)] = name
	}
	return m
}

// isKnown reports whether a command is in one of the lists.
func isKnown(name string) bool {
	name = strings.ToLower(name)
	return reads[name] != "" || changes[name] != ""
}

// recordedTexts are the arguments that are recorded of the commands of topics but dynamic
// security. Others, such as the configuration of a bridge, may have secrets in any place.
var recordedTexts = []string{"clientid", "topic", "streamname", "clustername", "filter"}

// Changes returns the commands of a request that change something, as they are recorded, and
// their places in it. Names are canonical.
func Changes(topic string, payload []byte) (list []broker.ControlCommand, at []int) {
	if topic == dynsec.Topic {
		for i, c := range dynsec.DecodeRequest(payload).Commands {
			if change, ok := c.Recorded(); ok {
				list, at = append(list, change), append(at, i)
			}
		}
		return list, at
	}
	bridge, ofBridge := BridgeID(topic)
	commands, _ := dynsec.DecodeCommands(payload)
	for i, c := range commands {
		name, ok := changes[strings.ToLower(c.Name)]
		if !ok {
			continue
		}
		members := map[string]any{}
		for _, argument := range recordedTexts {
			if text, ok := c.Args.Text(argument); ok {
				members[argument] = text
			}
		}
		if n, ok := c.Args.Int("nodeid"); ok {
			members["nodeid"] = n
		}
		if ofBridge {
			members["bridgeid"] = bridge
		}
		list, at = append(list, broker.ControlCommand{Name: name, Members: members}), append(at, i)
	}
	return list, at
}

// Refuse returns the response to a request none of whose commands is executed, for one reason.
func Refuse(payload []byte, reason string) []byte {
	commands, fault := dynsec.DecodeCommands(payload)
	answers := make([]response, 0, len(commands)+1)
	for _, c := range commands {
		answers = append(answers, response{Command: c.Name, Error: reason, CorrelationData: c.Correlation})
	}
	return encodeResponses(answers, fault)
}
