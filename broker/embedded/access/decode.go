package access

import (
	"encoding/binary"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// Errors of data from another broker that was refused. In each case nothing was changed.
var (
	// errFormat is the error of data in a format that this release does not support.
	errFormat = errors.New("written by another release of the broker: bring this node up to date")
	// errDamaged is the error of incomplete or invalid data.
	errDamaged = errors.New("damaged")
)

// decodeChangeSet decodes what encode returned, and nothing else.
func decodeChangeSet(b []byte) (changeSet, error) {
	d, err := newDecoder(b)
	if err != nil {
		return changeSet{}, err
	}
	s := changeSet{id: d.id(), base: d.count()}
	s.changes = list(d, d.change)
	s.disconnects = list(d, func() dynsec.Disconnect { return dynsec.Disconnect{Anonymous: d.bool(), Username: d.string()} })
	if err := d.end(); err != nil {
		return changeSet{}, err
	}
	return s, s.check()
}

// check refuses a set that would not advance the change index: the index shows whether the
// state is the one that a set was decided on.
func (s changeSet) check() error {
	if len(s.changes) == 0 {
		return nil
	}
	last, ok := s.changes[len(s.changes)-1].(dynsec.PutChangeIndex)
	if !ok || last.Index <= s.base {
		return fmt.Errorf("%w: a change without a change index of its own", errDamaged)
	}
	return nil
}

// decoder reads values from the front of b. After the first error, which it keeps, it
// returns zero values. Lengths beyond the remaining bytes are refused, so that small input
// cannot cause large allocations.
type decoder struct {
	b   []byte
	err error
}

// newDecoder returns a decoder of what follows the version.
func newDecoder(b []byte) (*decoder, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: empty", errDamaged)
	}
	if b[0] != format {
		return nil, fmt.Errorf("format %d: %w", b[0], errFormat)
	}
	return &decoder{b: b[1:]}, nil
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errDamaged, what)
	}
	d.b = nil
}

// end returns the first error; remaining bytes are one.
func (d *decoder) end() error {
	if len(d.b) > 0 {
		d.fail("trailing data")
	}
	return d.err
}

func (d *decoder) change() dynsec.Change {
	switch kind := d.byte(); kind {
	case kindPutClient:
		return d.client()
	case kindDropClient:
		return dynsec.DropClient{Username: d.string()}
	case kindPutGroup:
		return dynsec.PutGroup{GroupRecord: dynsec.GroupRecord{
			GroupName: d.string(), TextName: d.text(), TextDescription: d.text(), Roles: list(d, d.role)}}
	case kindDropGroup:
		return dynsec.DropGroup{GroupName: d.string()}
	case kindPutRole:
		return dynsec.PutRole{RoleRecord: dynsec.RoleRecord{
			RoleName: d.string(), TextName: d.text(), TextDescription: d.text(),
			AllowWildcardSubs: d.bool(), ACLs: list(d, d.acl)}}
	case kindDropRole:
		return dynsec.DropRole{RoleName: d.string()}
	case kindPutDefaults:
		return dynsec.PutDefaults{Defaults: dynsec.Defaults{
			PublishClientSend: d.bool(), PublishClientReceive: d.bool(), Subscribe: d.bool(), Unsubscribe: d.bool()}}
	case kindPutAnonymousGroup:
		return dynsec.PutAnonymousGroup{GroupName: d.string()}
	case kindPutChangeIndex:
		return dynsec.PutChangeIndex{Index: d.count()}
	case kindClear:
		return dynsec.Clear{}
	default:
		d.fail(fmt.Sprintf("change of unknown kind %d", kind))
		return nil
	}
}

func (d *decoder) client() dynsec.PutClient {
	flags := d.byte()
	if flags&^(flagDisabled|flagHasPassword) != 0 {
		d.fail("unknown flags of a client")
	}
	c := dynsec.PutClient{ClientRecord: dynsec.ClientRecord{
		Disabled: flags&flagDisabled != 0, HasPassword: flags&flagHasPassword != 0,
		Username: d.string(), ClientID: d.string(), TextName: d.text(), TextDescription: d.text(),
	}}
	c.Password = d.text()
	c.Roles, c.Groups = list(d, d.role), list(d, d.group)
	return c
}

func (d *decoder) id() (id changeID) {
	for i := range id {
		id[i] = d.byte()
	}
	return id
}

func (d *decoder) role() broker.RoleRef {
	return broker.RoleRef{RoleName: d.string(), Priority: broker.Priority(d.int())}
}

func (d *decoder) group() broker.GroupRef {
	return broker.GroupRef{GroupName: d.string(), Priority: broker.Priority(d.int())}
}

func (d *decoder) acl() broker.ACL {
	return broker.ACL{ACLType: broker.ACLType(d.string()), Topic: d.string(), Priority: d.int(), Allow: d.bool()}
}

// list reads a list. An empty one is nil.
func list[T any](d *decoder, one func() T) (values []T) {
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		values = append(values, one())
	}
	return values
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("too short")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) bool() bool {
	v := d.byte()
	if v > 1 {
		d.fail("not a boolean")
	}
	return v == 1
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail("too short")
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) text() *string {
	if !d.bool() {
		return nil
	}
	s := d.string()
	return &s
}

// count reads a non-negative number.
func (d *decoder) count() int64 {
	n := int64(d.uvarint())
	if n < 0 {
		d.fail("number too large")
		return 0
	}
	return n
}

// int reads a signed number.
func (d *decoder) int() int {
	n := d.uvarint()
	return int(int64(n>>1) ^ -int64(n&1))
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || size > 1 && d.b[size-1] == 0 {
		d.fail("not a number in its shortest form")
		return 0
	}
	d.b = d.b[size:]
	return n
}
