package packet

import "fmt"

// The reason codes of MQTT 5 [MQTT 2.4]. Those below 0x80 mean success.
const (
	ReasonSuccess                byte = 0x00 // also normal disconnection and granted QoS 0
	ReasonGrantedQoS1            byte = 0x01
	ReasonGrantedQoS2            byte = 0x02
	ReasonDisconnectWithWill     byte = 0x04
	ReasonNoMatchingSubscribers  byte = 0x10
	ReasonNoSubscriptionExisted  byte = 0x11
	ReasonContinueAuthentication byte = 0x18
	ReasonReauthenticate         byte = 0x19

	ReasonUnspecified               byte = 0x80
	ReasonMalformed                 byte = 0x81
	ReasonProtocolError             byte = 0x82
	ReasonImplementationSpecific    byte = 0x83
	ReasonUnsupportedVersion        byte = 0x84
	ReasonClientIDNotValid          byte = 0x85
	ReasonBadUsernameOrPassword     byte = 0x86
	ReasonNotAuthorized             byte = 0x87
	ReasonServerUnavailable         byte = 0x88
	ReasonServerBusy                byte = 0x89
	ReasonBanned                    byte = 0x8a
	ReasonServerShuttingDown        byte = 0x8b
	ReasonBadAuthMethod             byte = 0x8c
	ReasonKeepAliveTimeout          byte = 0x8d
	ReasonSessionTakenOver          byte = 0x8e
	ReasonTopicFilterInvalid        byte = 0x8f
	ReasonTopicNameInvalid          byte = 0x90
	ReasonPacketIDInUse             byte = 0x91
	ReasonPacketIDNotFound          byte = 0x92
	ReasonReceiveMaximumExceeded    byte = 0x93
	ReasonTopicAliasInvalid         byte = 0x94
	ReasonPacketTooLarge            byte = 0x95
	ReasonMessageRateTooHigh        byte = 0x96
	ReasonQuotaExceeded             byte = 0x97
	ReasonAdministrativeAction      byte = 0x98
	ReasonPayloadFormatInvalid      byte = 0x99
	ReasonRetainNotSupported        byte = 0x9a
	ReasonQoSNotSupported           byte = 0x9b
	ReasonUseAnotherServer          byte = 0x9c
	ReasonServerMoved               byte = 0x9d
	ReasonSharedNotSupported        byte = 0x9e
	ReasonConnectionRateExceeded    byte = 0x9f
	ReasonMaximumConnectTime        byte = 0xa0
	ReasonSubscriptionIDUnsupported byte = 0xa1
	ReasonWildcardUnsupported       byte = 0xa2
)

// The reason codes that a client may send, by packet.
const (
	pubackReasons     = "\x00\x10\x80\x83\x87\x90\x91\x97\x99"                     // and PUBREC [MQTT-3.4.2-1] [MQTT-3.5.2-1]
	pubrelReasons     = "\x00\x92"                                                 // and PUBCOMP [MQTT-3.6.2-1] [MQTT-3.7.2-1]
	disconnectReasons = "\x00\x04\x80\x81\x82\x83\x90\x93\x94\x95\x96\x97\x98\x99" // [MQTT-3.14.2-1]
)

// Error is a malformed packet or a protocol error.
type Error struct {
	Reason byte   // to respond with, if the version has reason codes
	Text   string // contains no text sent by the client, only numbers
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

func malformed(format string, a ...any) *Error {
	return &Error{Reason: ReasonMalformed, Text: fmt.Sprintf(format, a...)}
}

func violation(format string, a ...any) *Error {
	return &Error{Reason: ReasonProtocolError, Text: fmt.Sprintf(format, a...)}
}

var (
	errLongVarint  = malformed("a length or number is longer than it may be")
	errTruncated   = malformed("the packet ends too early")
	errTrailing    = malformed("the packet goes on after its end")
	errUndecodable = malformed("the packet cannot be decoded")
	errType        = violation("the packet is of another type")
	errFlags       = malformed("reserved flags of the fixed header are set or missing")
	errUTF8        = malformed("a text is not UTF-8 as MQTT wants it")
	errQoS         = malformed("QoS 3 does not exist")
	errDup         = malformed("DUP is set at QoS 0")
	errNoTopic     = violation("the topic is empty")
	errWildcard    = violation("the topic holds a wildcard")
	errSubID       = violation("a client must not send a subscription identifier with a message")
	errPacketID    = violation("the packet identifier is 0")
	errFilterID    = malformed("the packet identifier is 0")
	errNoFilters   = malformed("there is no topic filter")
	errFilter      = malformed("a topic filter is not valid")
	errShare       = violation("a shared subscription lacks its name or its topic filter")
	errShareLocal  = violation("a shared subscription asks for no local messages")
	errOptions     = malformed("subscription options have reserved bits or values")
	errAlias       = &Error{Reason: ReasonTopicAliasInvalid, Text: "the topic alias is 0"}
)

// asError converts a nil *Error to a nil error.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}
