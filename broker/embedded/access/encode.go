package access

import (
	"crypto/rand"
	"encoding/binary"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// format is the version of data sent to other brokers: changes, snapshots and requests. A
// broker that receives another version stops rather than guess.
const format = 1

// The first byte of an encoded change. Numbers are never reused.
const (
	kindPutClient byte = iota + 1
	kindDropClient
	kindPutGroup
	kindDropGroup
	kindPutRole
	kindDropRole
	kindPutDefaults
	kindPutAnonymousGroup
	kindPutChangeIndex
	kindClear
)

// Flags of a client.
const (
	flagDisabled byte = 1 << iota
	flagHasPassword
)

// changeSet is what a broker decided, in a form that leaves nothing to be decided: it turns
// equal states into equal states on every broker. Passwords are hashed and salted already,
// so neither clock, random numbers nor the release of a broker matter.
type changeSet struct {
	id          changeID
	base        int64 // the change index of the state that it was decided on
	changes     []dynsec.Change
	disconnects []dynsec.Disconnect
}

// changeID distinguishes a set from any other, also from an earlier attempt at the same
// change that was abandoned and is applied after all.
type changeID [16]byte

func newChangeID() (id changeID) {
	rand.Read(id[:]) //nolint:errcheck // never fails
	return id
}

// encode returns the only encoding of the set.
func (s changeSet) encode() []byte {
	b := binary.AppendUvarint(append([]byte{format}, s.id[:]...), uint64(s.base))
	b = appendList(b, s.changes, appendChange)
	return appendList(b, s.disconnects, func(b []byte, c dynsec.Disconnect) []byte {
		return appendString(appendBool(b, c.Anonymous), c.Username)
	})
}

func appendChange(b []byte, change dynsec.Change) []byte {
	switch c := change.(type) {
	case dynsec.PutClient:
		return appendClient(append(b, kindPutClient), c)
	case dynsec.DropClient:
		return appendString(append(b, kindDropClient), c.Username)
	case dynsec.PutGroup:
		b = appendString(append(b, kindPutGroup), c.GroupName)
		b = appendText(appendText(b, c.TextName), c.TextDescription)
		return appendList(b, c.Roles, appendRole)
	case dynsec.DropGroup:
		return appendString(append(b, kindDropGroup), c.GroupName)
	case dynsec.PutRole:
		b = appendString(append(b, kindPutRole), c.RoleName)
		b = appendText(appendText(b, c.TextName), c.TextDescription)
		return appendList(appendBool(b, c.AllowWildcardSubs), c.ACLs, appendACL)
	case dynsec.DropRole:
		return appendString(append(b, kindDropRole), c.RoleName)
	case dynsec.PutDefaults:
		b = appendBool(appendBool(append(b, kindPutDefaults), c.PublishClientSend), c.PublishClientReceive)
		return appendBool(appendBool(b, c.Subscribe), c.Unsubscribe)
	case dynsec.PutAnonymousGroup:
		return appendString(append(b, kindPutAnonymousGroup), c.GroupName)
	case dynsec.PutChangeIndex:
		return binary.AppendUvarint(append(b, kindPutChangeIndex), uint64(c.Index))
	case dynsec.Clear:
		return append(b, kindClear)
	}
	panic("access: a change of a kind that has no form") // a test encodes all kinds
}

func appendClient(b []byte, c dynsec.PutClient) []byte {
	var flags byte
	if c.Disabled {
		flags |= flagDisabled
	}
	if c.HasPassword {
		flags |= flagHasPassword
	}
	b = appendString(append(b, flags), c.Username)
	b = appendText(appendString(b, c.ClientID), c.TextName)
	b = appendText(appendText(b, c.TextDescription), c.Password)
	b = appendList(b, c.Roles, appendRole)
	return appendList(b, c.Groups, func(b []byte, g broker.GroupRef) []byte {
		return appendRole(b, broker.RoleRef{RoleName: g.GroupName, Priority: g.Priority})
	})
}

func appendRole(b []byte, r broker.RoleRef) []byte {
	return binary.AppendVarint(appendString(b, r.RoleName), int64(r.Priority))
}

func appendACL(b []byte, a broker.ACL) []byte {
	b = appendString(appendString(b, string(a.ACLType)), a.Topic)
	return appendBool(binary.AppendVarint(b, int64(a.Priority)), a.Allow)
}

// appendList appends the number of elements, and then each.
func appendList[T any](b []byte, list []T, put func([]byte, T) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, v := range list {
		b = put(b, v)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendText appends an optional string.
func appendText(b []byte, s *string) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendString(append(b, 1), *s)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
