package control

import "signalbox/broker"

// The commands that this package both encodes and executes.
const (
	opListPlugins       = "listPlugins"
	opListListeners     = "listListeners"
	opGetLicense        = "getLicenseInformation"
	opListClients       = "listClients"
	opGetClient         = "getClient"
	opDisconnectClient  = "disconnectClient"
	opSubscribeClient   = "subscribeClient"
	opUnsubscribeClient = "unsubscribeClient"
	opListTopics        = "listTopics"
	opGetTTL            = "getTtl"
	opSetTTL            = "setTtl"

	opListStreams         = "listStreams"
	opGetStream           = "getStream"
	opCreateStream        = "createStream"
	opModifyStream        = "modifyStream"
	opDeleteStream        = "deleteStream"
	opEnableStream        = "enableStream"
	opDisableStream       = "disableStream"
	opCountStreamMessages = "getStreamMessageCount"
	opClearStreamMessages = "clearStreamMessages"
	opReplayStream        = "replayStream"
	opStopStreamReplay    = "stopStreamReplay"
	opGetStreamLicense    = "getLicense"

	opGetBridgeConfig    = "getConfig"
	opUpdateBridgeConfig = "updateConfig"
	opGetBridgeStatus    = "getStatus"
	opGetBridgeSchema    = "getConfigSchema"
	opTestBridge         = "testConfig"
	opListDeadLetters    = "listDeadLetters"
	opRetryDeadLetters   = "retryDeadLetters"
	opDeleteDeadLetters  = "deleteDeadLetters"
)

// Command is a command to send to a broker. Members that are nil or zero are omitted.
type Command struct {
	Name                   string   `json:"command"`
	ClientID               *string  `json:"clientid,omitempty"`
	Topic                  string   `json:"topic,omitempty"`
	QoS                    *int     `json:"qos,omitempty"`
	SubscriptionIdentifier uint32   `json:"subscription_identifier,omitempty"`
	Options                *Options `json:"options,omitempty"`
	Verbose                bool     `json:"verbose,omitempty"`
	Count                  *int     `json:"count,omitempty"`
	Offset                 int      `json:"offset,omitempty"`
	TTL                    *int64   `json:"ttl,omitempty"`
	NodeID                 int      `json:"nodeid,omitempty"`
	CorrelationData        string   `json:"correlationData,omitempty"`

	*streamArgs
	*bridgeArgs
}

// Options are the options of a subscription.
type Options struct {
	NoLocal           bool              `json:"no_local"`
	RetainAsPublished bool              `json:"retain_as_published"`
	SendRetain        broker.SendRetain `json:"send_retain,omitempty"`
}

// Encode returns the message with just this command, and with the correlation data that
// identifies its response.
func (c Command) Encode(correlation string) []byte {
	c.CorrelationData = correlation
	return encode(map[string][]Command{"commands": {c}})
}

// On returns the command for another node of the HP cluster of the receiving broker; 0
// is that broker.
func (c Command) On(nodeID int) Command {
	c.NodeID = nodeID
	return c
}

// Object returns the name of the client, topic or stream that the command is about, "" for none.
func (c Command) Object() string {
	switch {
	case c.ClientID != nil:
		return *c.ClientID
	case c.streamArgs != nil:
		return c.StreamName
	}
	return c.Topic
}

// Bare returns a command without arguments, which need not be known here.
func Bare(name string) Command { return Command{Name: name} }

// ListPlugins returns the command of this name.
func ListPlugins() Command { return Bare(opListPlugins) }

// ListListeners returns the command of this name.
func ListListeners() Command { return Bare(opListListeners) }

// GetLicenseInformation returns the command of this name.
func GetLicenseInformation() Command { return Bare(opGetLicense) }

// ListClients returns the command for count clients from offset on, as records if
// verbose and otherwise as client ids; a count of -1 means all.
func ListClients(verbose bool, count, offset int) Command {
	return Command{Name: opListClients, Verbose: verbose, Count: &count, Offset: offset}
}

// GetClient returns the command of this name.
func GetClient(clientID string) Command { return Command{Name: opGetClient, ClientID: &clientID} }

// DisconnectClient returns the command of this name.
func DisconnectClient(clientID string) Command {
	return Command{Name: opDisconnectClient, ClientID: &clientID}
}

// SubscribeClient returns the command of this name.
func SubscribeClient(clientID string, s broker.SubscriptionSpec) Command {
	return Command{Name: opSubscribeClient, ClientID: &clientID, Topic: s.Topic, QoS: &s.QoS,
		SubscriptionIdentifier: s.SubscriptionIdentifier,
		Options:                &Options{NoLocal: s.NoLocal, RetainAsPublished: s.RetainAsPublished, SendRetain: s.SendRetain}}
}

// UnsubscribeClient returns the command of this name.
func UnsubscribeClient(clientID, topic string) Command {
	return Command{Name: opUnsubscribeClient, ClientID: &clientID, Topic: topic}
}

// ListTopics returns the command for count topics from offset on; a count of -1
// means all.
func ListTopics(count, offset int) Command {
	return Command{Name: opListTopics, Count: &count, Offset: offset}
}

// GetTTL returns the command getTtl.
func GetTTL() Command { return Bare(opGetTTL) }

// SetTTL returns the command setTtl.
func SetTTL(seconds int64) Command { return Command{Name: opSetTTL, TTL: &seconds} }
