package limits

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// maxIdleAddresses bounds the addresses without a connection that are kept. The one that
// has been idle for the longest time is removed.
const maxIdleAddresses = 65_536

// Refusal is an error: the key of the limit that refuses a connection or a log-in.
type Refusal string

// The refusals.
const (
	Full              Refusal = "max_connections"
	TooFast           Refusal = "connect_rate"
	AddressFull       Refusal = "max_connections_per_address"
	AddressTooFast    Refusal = "connect_rate_per_address"
	Evicted           Refusal = "max_half_open"             // the connection was admitted before
	AddressEvicted    Refusal = "max_half_open_per_address" // the same
	TooManyFailures   Refusal = "max_failed_logins"
	LoginBytes        Refusal = "max_login_bytes" // the connection may have been admitted before
	AddressLoginBytes Refusal = "max_login_bytes_per_address"
)

// Error names the limit.
func (r Refusal) Error() string { return "the limit " + string(r) + " is reached" }

// Limits counts connections, overall and by address. All methods are safe for concurrent
// use, and their cost does not grow with the number of connections.
type Limits struct {
	config             Config
	exempt             []netip.Prefix
	connectRate        rateLimit
	addressConnectRate rateLimit // of one address
	addressFailureRate rateLimit
	now                func() time.Time

	mu        sync.Mutex // guards what follows, and the fields of Admission and address
	open      int
	connects  tokenBucket
	halfOpen  list.List // of *Admission, the oldest first
	addresses map[netip.Addr]*address
	idle      list.List // of *address without a connection, the first to be removed first

	reserved     int64     // bytes held before log-in
	reservations list.List // of *Admission that hold some of them, the oldest first
	exempted     address   // the bytes of all connections without a bound of their own
}

// address is what is known of one address. Limits.mu guards it.
type address struct {
	key      netip.Addr
	open     int
	halfOpen list.List // of *Admission, the oldest first
	connects tokenBucket
	failures tokenBucket
	reserved int64         // bytes before log-in
	idle     *list.Element // in Limits.idle; nil while open
}

// Admission is an admitted connection. Limits.mu guards its fields.
type Admission struct {
	limits          *Limits
	evict           func(Refusal)
	halfOpen        *list.Element // in Limits.halfOpen; nil after CONNECT or eviction
	addressHalfOpen *list.Element // in address.halfOpen; the same
	address         *address      // nil until SetAddress, and where exempt
	reserved        int64         // bytes before log-in
	reservation     *list.Element // in Limits.reservations; nil without one
	released        bool
}

// New returns Limits without any connections. The configuration must be valid.
func New(c Config, now func() time.Time) *Limits {
	l := &Limits{
		config:             c,
		connectRate:        perSecond(c.ConnectRate, c.ConnectBurst),
		addressConnectRate: perSecond(c.ConnectRatePerAddress, c.ConnectBurstPerAddress),
		addressFailureRate: within(c.FailedLoginWindow, c.MaxFailedLogins),
		now:                now,
		addresses:          map[netip.Addr]*address{},
	}
	for _, text := range c.Exempt {
		if p, err := ParseNetwork(text); err == nil { // validated
			l.exempt = append(l.exempt, p)
		}
	}
	return l
}

// Admit admits a new connection, whose peer address may not be known yet. Its error is a
// Refusal. The caller must call Release when the connection has ended.
//
// The connection is half-open until ConnectReceived. If there are too many half-open
// connections, Admit or SetAddress calls evict of the oldest, with the limit, on the new
// connection's goroutine: it must not block nor call Limits, and must make the connection's
// owner close it.
func (l *Limits) Admit(evict func(Refusal)) (*Admission, error) {
	t := &Admission{limits: l, evict: evict}
	victim, err := l.admit(t)
	if err != nil {
		return nil, err
	}
	if victim != nil {
		victim.evict(Evicted)
	}
	return t, nil
}

func (l *Limits) admit(t *Admission) (victim *Admission, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.config.MaxConnections > 0 && l.open >= l.config.MaxConnections {
		return nil, Full
	}
	if !l.connects.take(l.connectRate, l.now()) {
		return nil, TooFast
	}
	l.open++
	t.halfOpen = l.halfOpen.PushBack(t)
	if l.config.MaxHalfOpen == 0 || l.halfOpen.Len() <= l.config.MaxHalfOpen {
		return nil, nil
	}
	victim = l.evictionCandidate()
	victim.removeHalfOpen()
	return victim, nil
}

// evictionScan is the number of the oldest half-open connections among which one is chosen
// for eviction.
const evictionScan = 64

// evictionCandidate returns, of the oldest half-open connections, one of the address with
// most of them: an address that floods displaces its own connections rather than a client
// that takes a little longer.
func (l *Limits) evictionCandidate() *Admission {
	var found *Admission
	most, n := 0, 0
	for e := l.halfOpen.Front(); e != nil && n < evictionScan; e, n = e.Next(), n+1 {
		t := e.Value.(*Admission) //nolint:forcetypeassert // only admissions are in it
		of := 1
		if t.address != nil {
			of = t.address.halfOpen.Len()
		}
		if of > most {
			found, most = t, of
		}
	}
	return found
}

// takeOldest removes the first of the half-open connections from its lists and returns it, if
// there are more than most.
func (l *Limits) takeOldest(halfOpen *list.List, most int) *Admission {
	if most == 0 || halfOpen.Len() <= most {
		return nil
	}
	t := halfOpen.Front().Value.(*Admission) //nolint:forcetypeassert // only admissions are in it
	t.removeHalfOpen()
	return t
}

// SetAddress sets the address of the connection's peer, at most once. Its error is a
// Refusal, after which the caller must Release. The zero Addr is that of a peer without
// one, as on a Unix socket, and exempt.
func (t *Admission) SetAddress(addr netip.Addr) error {
	l := t.limits
	if l.isExempt(addr) {
		return nil
	}
	victim, err := l.setAddress(t, addr)
	if victim != nil {
		victim.evict(AddressEvicted)
	}
	return err
}

func (l *Limits) setAddress(t *Admission, addr netip.Addr) (victim *Admission, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.addressOf(addr)
	defer l.updateIdle(a)
	if most := l.config.MaxConnectionsPerAddress; most > 0 && a.open >= most {
		return nil, AddressFull
	}
	if !a.connects.take(l.addressConnectRate, l.now()) {
		return nil, AddressTooFast
	}
	a.open++
	t.address = a
	if t.halfOpen == nil {
		return nil, nil // evicted meanwhile
	}
	t.addressHalfOpen = a.halfOpen.PushBack(t)
	return l.takeOldest(&a.halfOpen, l.config.MaxHalfOpenPerAddress), nil
}

// ConnectReceived records that the connection has sent its CONNECT.
func (t *Admission) ConnectReceived() {
	t.limits.mu.Lock()
	defer t.limits.mu.Unlock()
	t.removeHalfOpen()
}

func (t *Admission) removeHalfOpen() {
	if t.halfOpen != nil {
		t.limits.halfOpen.Remove(t.halfOpen)
	}
	if t.addressHalfOpen != nil {
		t.address.halfOpen.Remove(t.addressHalfOpen)
	}
	t.halfOpen, t.addressHalfOpen = nil, nil
}

// Release ends the admission. Further calls have no effect.
func (t *Admission) Release() {
	l := t.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	t.removeHalfOpen()
	l.setReserved(t, 0)
	l.open--
	if a := t.address; a != nil {
		a.open--
		l.updateIdle(a)
	}
}

// LoginAllowed returns a Refusal if log-ins from an address are refused without being
// checked.
func (l *Limits) LoginAllowed(addr netip.Addr) error {
	if l.isExempt(addr) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.addresses[keyOf(addr)]; a != nil && !a.failures.available(l.addressFailureRate, l.now()) {
		return TooManyFailures
	}
	return nil
}

// LoginFailed records that a log-in from an address was refused for its credentials.
func (l *Limits) LoginFailed(addr netip.Addr) {
	if l.config.MaxFailedLogins == 0 || l.isExempt(addr) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.addressOf(addr)
	if now := l.now(); a.failures.available(l.addressFailureRate, now) {
		a.failures.use(l.addressFailureRate, now)
	}
	l.updateIdle(a)
}

// Usage is the current use of the limits.
type Usage struct {
	Open       int   // connections
	HalfOpen   int   // of these, without CONNECT
	Addresses  int   // kept
	LoginBytes int64 // held for clients that have not logged in
}

// Usage returns the current use.
func (l *Limits) Usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Usage{Open: l.open, HalfOpen: l.halfOpen.Len(), Addresses: len(l.addresses), LoginBytes: l.reserved}
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

// keyOf returns the address, or its /64 network for IPv6.
func keyOf(addr netip.Addr) netip.Addr {
	addr = plain(addr)
	if addr.Is4() {
		return addr
	}
	network, _ := addr.Prefix(64) // no error: within 128
	return network.Addr()
}

// addressOf finds or creates the state of an address and removes it from the idle ones.
// After a change, the caller calls updateIdle.
func (l *Limits) addressOf(addr netip.Addr) *address {
	key := keyOf(addr)
	a := l.addresses[key]
	if a == nil {
		a = &address{key: key}
		l.addresses[key] = a
	}
	if a.idle != nil {
		l.idle.Remove(a.idle)
		a.idle = nil
	}
	return a
}

// updateIdle adds an address without a connection to the idle ones, and removes those whose
// limits are unused again or that exceed maxIdleAddresses.
func (l *Limits) updateIdle(a *address) {
	if a.open == 0 && a.idle == nil {
		a.idle = l.idle.PushBack(a)
	}
	now := l.now()
	for range 2 { // two per change, so that their number falls
		front := l.idle.Front()
		if front == nil {
			return
		}
		first := front.Value.(*address) //nolint:forcetypeassert // only addresses are in it
		if l.idle.Len() <= maxIdleAddresses && (first.connects.fullAt.After(now) || first.failures.fullAt.After(now)) {
			return
		}
		l.idle.Remove(front)
		delete(l.addresses, first.key)
	}
}
