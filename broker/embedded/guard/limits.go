package guard

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// maxIdleAddresses bounds what is remembered of addresses without a
// connection. The one that has been without for the longest is forgotten.
const maxIdleAddresses = 65_536

// Refusal is why a connection or a log-in is not let in: the key of the limit
// that it exceeds. It is an error.
type Refusal string

// The refusals.
const (
	Full              Refusal = "max_connections"
	TooFast           Refusal = "connect_rate"
	AddressFull       Refusal = "max_connections_per_address"
	AddressTooFast    Refusal = "connect_rate_per_address"
	GaveWay           Refusal = "max_half_open"             // the connection was let in before
	AddressGaveWay    Refusal = "max_half_open_per_address" // the same
	TooManyFailures   Refusal = "max_failed_logins"
	LoginBytes        Refusal = "max_login_bytes" // the connection may have been let in before
	AddressLoginBytes Refusal = "max_login_bytes_per_address"
)

// Error says which limit it is.
func (r Refusal) Error() string { return "the limit " + string(r) + " is reached" }

// Limits counts connections, overall and by address. All methods are safe for
// concurrent use and take no longer with many connections than with few.
type Limits struct {
	config     Config
	exempt     []netip.Prefix
	arrivals   allowance
	arrivalsOf allowance // of one address
	failuresOf allowance
	now        func() time.Time

	mu        sync.Mutex // guards what follows, and what Ticket and address say it guards
	open      int
	arrived   pace
	half      list.List // of *Ticket, the oldest first
	addresses map[netip.Addr]*address
	idle      list.List // of *address without a connection, the first to be forgotten first

	reserved     int64     // bytes held before log-in
	reservations list.List // of *Ticket that hold some of them, the oldest first
	exempted     address   // holds those of all connections without a bound of their own
}

// address is what is known of one address. Limits.mu guards it.
type address struct {
	key      netip.Addr
	open     int
	half     list.List // of *Ticket, the oldest first
	arrived  pace
	failed   pace
	reserved int64         // bytes before log-in
	resting  *list.Element // its place in Limits.idle; nil while open
}

// Ticket is one connection's place among all. Limits.mu guards its fields.
type Ticket struct {
	limits      *Limits
	cut         func(Refusal)
	half        *list.Element // its place in Limits.half; nil once greeted or cut off
	own         *list.Element // the same in address.half
	address     *address      // nil until From, and where exempt
	reserved    int64         // bytes before log-in
	reservation *list.Element // its place in Limits.reservations; nil without one
	left        bool
}

// NewLimits counts from nothing. The configuration must be valid.
func NewLimits(c Config, now func() time.Time) *Limits {
	l := &Limits{
		config:     c,
		arrivals:   perSecond(c.ConnectRate, c.ConnectBurst),
		arrivalsOf: perSecond(c.ConnectRatePerAddress, c.ConnectBurstPerAddress),
		failuresOf: within(c.FailedLoginWindow, c.MaxFailedLogins),
		now:        now,
		addresses:  map[netip.Addr]*address{},
	}
	for _, text := range c.Exempt {
		if p, err := ParseNetwork(text); err == nil { // validated
			l.exempt = append(l.exempt, p)
		}
	}
	return l
}

// Enter asks for a place for a new connection, whose peer may not be known yet.
// Its error is a Refusal. The place must be given back with Leave.
//
// The connection is half open until Greeted. When there are too many of those,
// Enter or From calls cut of the oldest, with the limit, in the newcomer's
// goroutine: it must not block nor call Limits, and make the connection's owner
// close it.
func (l *Limits) Enter(cut func(Refusal)) (*Ticket, error) {
	t := &Ticket{limits: l, cut: cut}
	victim, err := l.enter(t)
	if err != nil {
		return nil, err
	}
	if victim != nil {
		victim.cut(GaveWay)
	}
	return t, nil
}

func (l *Limits) enter(t *Ticket) (victim *Ticket, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.config.MaxConnections > 0 && l.open >= l.config.MaxConnections {
		return nil, Full
	}
	if !l.arrived.take(l.arrivals, l.now()) {
		return nil, TooFast
	}
	l.open++
	t.half = l.half.PushBack(t)
	if l.config.MaxHalfOpen == 0 || l.half.Len() <= l.config.MaxHalfOpen {
		return nil, nil
	}
	victim = l.mostInsistent()
	victim.greeted()
	return victim, nil
}

// looked is among how many of the oldest half-open connections one is chosen
// that gives way.
const looked = 64

// mostInsistent gives, of the oldest half-open connections, that of the address
// with most of them: so an address that floods displaces itself, and not a
// client that takes a little longer.
func (l *Limits) mostInsistent() *Ticket {
	var found *Ticket
	most, n := 0, 0
	for e := l.half.Front(); e != nil && n < looked; e, n = e.Next(), n+1 {
		t := e.Value.(*Ticket) //nolint:forcetypeassert // only tickets are in it
		of := 1
		if t.address != nil {
			of = t.address.half.Len()
		}
		if of > most {
			found, most = t, of
		}
	}
	return found
}

// oldest takes the first of half-open tickets out of their lists if there are
// more than most.
func (l *Limits) oldest(half *list.List, most int) *Ticket {
	if most == 0 || half.Len() <= most {
		return nil
	}
	t := half.Front().Value.(*Ticket) //nolint:forcetypeassert // only tickets are in it
	t.greeted()
	return t
}

// From says where the connection comes from, at most once. Its error is a
// Refusal, after which the connection must Leave. The zero Addr is that of a
// peer without one, as on a unix socket, and exempt.
func (t *Ticket) From(addr netip.Addr) error {
	l := t.limits
	if l.isExempt(addr) {
		return nil
	}
	victim, err := l.from(t, addr)
	if victim != nil {
		victim.cut(AddressGaveWay)
	}
	return err
}

func (l *Limits) from(t *Ticket, addr netip.Addr) (victim *Ticket, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.addressOf(addr)
	defer l.rest(a)
	if most := l.config.MaxConnectionsPerAddress; most > 0 && a.open >= most {
		return nil, AddressFull
	}
	if !a.arrived.take(l.arrivalsOf, l.now()) {
		return nil, AddressTooFast
	}
	a.open++
	t.address = a
	if t.half == nil {
		return nil, nil // was cut off meanwhile
	}
	t.own = a.half.PushBack(t)
	return l.oldest(&a.half, l.config.MaxHalfOpenPerAddress), nil
}

// Greeted says that the connection has sent its CONNECT.
func (t *Ticket) Greeted() {
	t.limits.mu.Lock()
	defer t.limits.mu.Unlock()
	t.greeted()
}

func (t *Ticket) greeted() {
	if t.half != nil {
		t.limits.half.Remove(t.half)
	}
	if t.own != nil {
		t.address.half.Remove(t.own)
	}
	t.half, t.own = nil, nil
}

// Leave gives the place back. More than once is harmless.
func (t *Ticket) Leave() {
	l := t.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	t.greeted()
	l.setReserved(t, 0)
	l.open--
	if a := t.address; a != nil {
		a.open--
		l.rest(a)
	}
}

// LoginAllowed tells whether a log-in from an address may be looked at. Its
// error is a Refusal.
func (l *Limits) LoginAllowed(addr netip.Addr) error {
	if l.isExempt(addr) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.addresses[keyOf(addr)]; a != nil && !a.failed.left(l.failuresOf, l.now()) {
		return TooManyFailures
	}
	return nil
}

// LoginFailed says that a log-in from an address was refused for what it said.
func (l *Limits) LoginFailed(addr netip.Addr) {
	if l.config.MaxFailedLogins == 0 || l.isExempt(addr) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.addressOf(addr)
	if now := l.now(); a.failed.left(l.failuresOf, now) {
		a.failed.use(l.failuresOf, now)
	}
	l.rest(a)
}

// Usage is how much is in use.
type Usage struct {
	Open       int   // connections
	HalfOpen   int   // of these, without CONNECT
	Addresses  int   // remembered
	LoginBytes int64 // held for clients that have not logged in
}

// Usage tells how much is in use now.
func (l *Limits) Usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Usage{Open: l.open, HalfOpen: l.half.Len(), Addresses: len(l.addresses), LoginBytes: l.reserved}
}

func (l *Limits) isExempt(addr netip.Addr) bool {
	if !addr.IsValid() {
		return true
	}
	addr = plain(addr)
	for _, p := range l.exempt {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// keyOf is the address, or its /64 network for IPv6.
func keyOf(addr netip.Addr) netip.Addr {
	addr = plain(addr)
	if addr.Is4() {
		return addr
	}
	network, _ := addr.Prefix(64) // no error: within 128
	return network.Addr()
}

// addressOf finds or makes what is known of an address and takes it out of the
// idle ones. After a change, rest must be called.
func (l *Limits) addressOf(addr netip.Addr) *address {
	key := keyOf(addr)
	a := l.addresses[key]
	if a == nil {
		a = &address{key: key}
		l.addresses[key] = a
	}
	if a.resting != nil {
		l.idle.Remove(a.resting)
		a.resting = nil
	}
	return a
}

// rest puts an address without a connection among the idle ones, and forgets
// of these what there is nothing to know of or no room for.
func (l *Limits) rest(a *address) {
	if a.open == 0 && a.resting == nil {
		a.resting = l.idle.PushBack(a)
	}
	now := l.now()
	for range 2 { // two for one, so that they become fewer
		front := l.idle.Front()
		if front == nil {
			return
		}
		first := front.Value.(*address) //nolint:forcetypeassert // only addresses are in it
		if l.idle.Len() <= maxIdleAddresses && (first.arrived.rested.After(now) || first.failed.rested.After(now)) {
			return
		}
		l.idle.Remove(front)
		delete(l.addresses, first.key)
	}
}
