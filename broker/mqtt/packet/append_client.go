package packet

import "encoding/binary"

// AppendConnect appends a CONNECT.
func AppendConnect(dst []byte, c *Connect) []byte {
	dst, body := begin(dst, TypeConnect, 0)
	name, level := "MQTT", c.Version
	if c.Version == V31 {
		name = "MQIsdp"
	}
	if c.Bridge {
		level |= bridgeBit
	}
	dst = append(appendText(dst, name), level, c.flags())
	dst = binary.BigEndian.AppendUint16(dst, c.KeepAlive)
	if c.Version == V5 {
		from := len(dst)
		dst = end(c.appendProperties(dst), from)
	}
	dst = appendText(dst, c.ClientID)
	if c.Will != nil {
		dst = c.Will.appendTo(dst, c.Version)
	}
	if c.HasUsername {
		dst = appendText(dst, c.Username)
	}
	if c.HasPassword {
		dst = appendText(dst, c.Password)
	}
	return end(dst, body)
}

func (c *Connect) flags() (flags byte) {
	if c.CleanStart {
		flags |= flagCleanStart
	}
	if c.Will != nil {
		flags |= flagWill | c.Will.QoS<<3
		if c.Will.Retain {
			flags |= flagWillRetain
		}
	}
	if c.HasPassword {
		flags |= flagPassword
	}
	if c.HasUsername {
		flags |= flagUsername
	}
	return flags
}

func (c *Connect) appendProperties(dst []byte) []byte {
	if c.HasSessionExpiry {
		dst = appendProperty32(dst, propSessionExpiry, c.SessionExpiry)
	}
	if c.ReceiveMaximum < 65535 {
		dst = appendNonZero16(dst, propReceiveMaximum, c.ReceiveMaximum)
	}
	dst = appendNonZero32(dst, propMaximumPacketSize, c.MaximumPacketSize)
	dst = appendNonZero16(dst, propTopicAliasMaximum, c.TopicAliasMaximum)
	if !c.RequestProblemInfo {
		dst = append(dst, propRequestProblemInfo, 0)
	}
	if c.RequestResponseInfo {
		dst = append(dst, propRequestResponseInfo, 1)
	}
	if c.Peer != "" {
		dst = appendText(appendText(append(dst, propUser), BridgeProperty), c.Peer)
	}
	if c.HasAuthMethod {
		dst = appendText(append(dst, propAuthMethod), c.AuthMethod)
	}
	return dst
}

// appendTo appends the Will's part of the payload.
func (w *Will) appendTo(dst []byte, version byte) []byte {
	if version == V5 {
		from := len(dst)
		dst = append(appendNonZero32(dst, propWillDelay, w.Delay), w.Properties...)
		if w.HasExpiry {
			dst = appendProperty32(dst, propMessageExpiry, w.Expiry)
		}
		dst = end(dst, from)
	}
	return appendText(appendText(dst, w.Topic), w.Payload)
}

// AppendSubscribe appends a SUBSCRIBE.
func AppendSubscribe(dst []byte, version byte, s *Subscribe) []byte {
	dst, body := begin(dst, TypeSubscribe, 2)
	dst = binary.BigEndian.AppendUint16(dst, s.PacketID)
	if version == V5 {
		from := len(dst)
		if s.ID > 0 {
			dst = appendVarint(append(dst, propSubscriptionID), s.ID)
		}
		dst = end(dst, from)
	}
	for _, f := range s.Filters {
		dst = append(appendText(dst, f.Filter), f.Options)
	}
	return end(dst, body)
}

// AppendUnsubscribe appends an UNSUBSCRIBE.
func AppendUnsubscribe(dst []byte, version byte, u *Unsubscribe) []byte {
	dst, body := begin(dst, TypeUnsubscribe, 2)
	dst = binary.BigEndian.AppendUint16(dst, u.PacketID)
	if version == V5 {
		dst = append(dst, 0) // no properties
	}
	for _, f := range u.Filters {
		dst = appendText(dst, f)
	}
	return end(dst, body)
}
