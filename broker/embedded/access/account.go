package access

import (
	"maps"
	"sync"
	"sync/atomic"

	"signalbox/broker/dynsec"
)

// Account is one connection's share of the rights of its username, or of the clients
// without one. It always reflects the rights now in force.
//
// All connections of a username share an entry with an atomic pointer to their rights. The
// entry of a client that was deleted or never existed denies everything. An account that
// was revoked keeps its rights until its connection has ended, since the response must still
// reach an administrator who changed its own rights.
type Account struct {
	entry       *entry
	revocations uint64 // the entry's count when the account was acquired
	accounts    *accounts
	username    string
	released    atomic.Bool
}

// Allowed reports whether an event is allowed now. For a subscription or unsubscription,
// topic is the filter. It takes no lock and allocates nothing. The account of a client that
// was deleted denies everything.
func (a *Account) Allowed(ev dynsec.Event, clientID, topic string) bool {
	r := a.entry.rights.Load()
	return r != nil && r.Allowed(ev, clientID, topic)
}

// Revoked reports whether a change since the log-in requires that the connection be closed. A
// broker that registers a connection only after Authenticate has returned must call it once
// more after registering: a change in between was reported when there was no connection to
// find.
func (a *Account) Revoked() bool { return a.entry.revocations.Load() != a.revocations }

// Release releases the account when its connection ends. Further calls have no effect.
func (a *Account) Release() {
	if a.released.CompareAndSwap(false, true) {
		a.accounts.release(a)
	}
}

// Anonymous returns an account of the clients without username. The caller decides whether
// such clients are admitted.
func (c *Control) Anonymous() *Account {
	e := c.accounts.anonymous
	return &Account{entry: e, revocations: e.revocations.Load(), accounts: c.accounts}
}

// Resume returns an account of a username without a log-in, for the session of a client
// that logged in earlier. An unknown username has no rights.
func (c *Control) Resume(username string) *Account { return c.accounts.acquire(username) }

// Epoch changes after every change of any rights. A result of Allowed is valid as long as
// Epoch, read before it, is unchanged.
func (c *Control) Epoch() uint64 { return c.accounts.epoch.Load() }

// entry is the rights of one username, shared by its connections.
type entry struct {
	rights      atomic.Pointer[dynsec.Rights] // nil denies everything
	revocations atomic.Uint64
	holders     int // guarded by accounts.mu
}

// accounts are the entries of the usernames that are connected, or about to be.
//
// A change is published by storing the state first and refreshing the entries after; an
// entry is created under mu with rights read from the state. So in either order no entry
// keeps rights of an older state.
type accounts struct {
	state     *atomic.Pointer[dynsec.State]
	anonymous *entry
	epoch     atomic.Uint64 // counts changes in force

	mu   sync.Mutex // guards live and the holders of its entries
	live map[string]*entry
}

func newAccounts(state *atomic.Pointer[dynsec.State]) *accounts {
	a := &accounts{state: state, anonymous: &entry{}, live: map[string]*entry{}}
	a.anonymous.rights.Store(state.Load().AnonymousRights())
	return a
}

// acquire returns an account of a username, known or not.
func (a *accounts) acquire(username string) *Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.live[username]
	if e == nil {
		e = &entry{}
		e.refresh(a.state.Load(), username)
		a.live[username] = e
	}
	e.holders++
	return &Account{entry: e, revocations: e.revocations.Load(), accounts: a, username: username}
}

func (a *accounts) release(of *Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of.entry == a.anonymous {
		return
	}
	of.entry.holders--
	if of.entry.holders == 0 {
		delete(a.live, of.username)
	}
}

func (e *entry) refresh(s *dynsec.State, username string) {
	r, _ := s.Rights(username)
	e.rights.Store(r)
}

// refresh updates the entries that a published change affects and then revokes those of the
// clients to disconnect. The caller holds committing.
func (a *accounts) refresh(s *dynsec.State, changes []dynsec.Change, disconnects []dynsec.Disconnect) {
	c := affectedBy(changes, disconnects)
	if c.anonymous {
		a.anonymous.rights.Store(s.AnonymousRights())
	}
	for username, e := range a.affectedEntries(c) {
		e.refresh(s, username)
	}
	a.epoch.Add(1)
	for _, d := range disconnects {
		a.revoke(d)
	}
}

func (a *accounts) revoke(d dynsec.Disconnect) {
	if d.Anonymous {
		a.anonymous.revocations.Add(1)
		return
	}
	a.mu.Lock()
	e := a.live[d.Username]
	a.mu.Unlock()
	if e != nil {
		e.revocations.Add(1)
	}
}

// affectedEntries returns the live entries of the affected usernames.
func (a *accounts) affectedEntries(c affected) map[string]*entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.all {
		return maps.Clone(a.live)
	}
	found := map[string]*entry{}
	for username := range c.usernames {
		if e := a.live[username]; e != nil {
			found[username] = e
		}
	}
	return found
}

// affected are the usernames whose rights may differ after a change.
type affected struct {
	all       bool
	anonymous bool
	usernames map[string]struct{}
}

// affectedBy returns the usernames that changes affect. The disconnects name all whose rights
// changed, so no search of the clients is needed, with two exceptions: default access
// disconnects no client, and a new client may have connections of a deleted one with its name.
func affectedBy(changes []dynsec.Change, disconnects []dynsec.Disconnect) affected {
	c := affected{usernames: map[string]struct{}{}}
	for _, change := range changes {
		switch ch := change.(type) {
		case dynsec.PutClient:
			c.usernames[ch.Username] = struct{}{}
		case dynsec.PutDefaults, dynsec.PutClients, dynsec.Clear:
			c.all, c.anonymous = true, true
		}
	}
	for _, d := range disconnects {
		c.anonymous = c.anonymous || d.Anonymous
		if !d.Anonymous && !c.all {
			c.usernames[d.Username] = struct{}{}
		}
	}
	return c
}
