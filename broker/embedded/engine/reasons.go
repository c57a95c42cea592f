package engine

// Reason codes of MQTT 5 [2.4] that the engine gives or looks at.
const (
	reasonSuccess              = 0x00
	reasonDisconnectWithWill   = 0x04
	reasonNoMatchingSubs       = 0x10
	reasonNoSubscription       = 0x11
	reasonUnspecified          = 0x80
	reasonMalformed            = 0x81
	reasonProtocolError        = 0x82
	reasonImplementation       = 0x83
	reasonUnsupportedVersion   = 0x84
	reasonClientIDInvalid      = 0x85
	reasonNotAuthorized        = 0x87
	reasonServerUnavailable    = 0x88
	reasonServerBusy           = 0x89
	reasonBanned               = 0x8A
	reasonShuttingDown         = 0x8B
	reasonBadAuthMethod        = 0x8C
	reasonKeepAliveTimeout     = 0x8D
	reasonTakenOver            = 0x8E
	reasonFilterInvalid        = 0x8F
	reasonTopicInvalid         = 0x90
	reasonPacketIDNotFound     = 0x92
	reasonReceiveMaximum       = 0x93
	reasonTopicAliasInvalid    = 0x94
	reasonPacketTooLarge       = 0x95
	reasonQuotaExceeded        = 0x97
	reasonAdministrativeAction = 0x98
)

// connackCode translates a reason for a CONNACK of older versions: 0 means that
// they have no word for it, and the connection is closed without an answer
// [MQTT-3.2.2-6 of 3.1.1].
func connackCode(version, reason byte) byte {
	if version >= 5 {
		return reason
	}
	switch reason {
	case reasonUnsupportedVersion:
		return 1
	case reasonClientIDInvalid:
		return 2
	case reasonServerUnavailable, reasonServerBusy, reasonQuotaExceeded:
		return 3
	case reasonNotAuthorized, reasonBanned:
		return 5
	}
	return 0
}
