package access

import (
	"maps"
	"sync"
	"sync/atomic"

	"signalbox/broker/dynsec"
)

// Account is what one connection holds of the rights of its username, or of
// the clients without one. It always shows the rights now in force.
type Account struct {
	entry    *entry
	cuts     uint64 // the entry's count of cuts when the account was taken
	accounts *accounts
	username string
	released atomic.Bool
}

// Allowed tells whether an event is allowed now. For an (un)subscription topic
// is the filter. It takes no lock and allocates nothing. The account of a
// client that was deleted denies everything.
func (a *Account) Allowed(ev dynsec.Event, clientID, topic string) bool {
	r := a.entry.rights.Load()
	return r != nil && r.Allowed(ev, clientID, topic)
}

// Cut tells whether a change since the log-in demands that the connection be
// thrown out. A broker that makes a connection known only after Authenticate
// has returned asks once more when it has done so: a cut that came in between
// was told while there was no connection to find.
func (a *Account) Cut() bool { return a.entry.cuts.Load() != a.cuts }

// Release gives the account back when its connection ends. More than once is
// harmless.
func (a *Account) Release() {
	if a.released.CompareAndSwap(false, true) {
		a.accounts.release(a)
	}
}

// Anonymous gives an account of the clients without username. Whether there
// may be such clients is for the caller to know.
func (c *Control) Anonymous() *Account {
	e := c.accounts.anonymous
	return &Account{entry: e, cuts: e.cuts.Load(), accounts: c.accounts}
}

// Resume gives an account of a username without a log-in, for what a client left
// behind that logged in before. An unknown one may do nothing.
func (c *Control) Resume(username string) *Account { return c.accounts.take(username) }

// Epoch changes after every change of anybody's rights. What Allowed says holds
// as long as Epoch, asked before, tells the same.
func (c *Control) Epoch() uint64 { return c.accounts.epoch.Load() }

// entry is the rights of one username, shared by its connections.
type entry struct {
	rights  atomic.Pointer[dynsec.Rights] // nil denies everything
	cuts    atomic.Uint64
	holders int // guarded by accounts.mu
}

// accounts holds the entries of the usernames that are connected, or about to
// be.
//
// A change is published by storing the state first and refreshing the entries
// after; an entry comes into being under mu with rights read from the state.
// So whichever comes first, no entry keeps rights of an older state.
type accounts struct {
	state     *atomic.Pointer[dynsec.State]
	anonymous *entry
	epoch     atomic.Uint64 // counts changes that are in force

	mu   sync.Mutex // guards live and the holders in it
	live map[string]*entry
}

func newAccounts(state *atomic.Pointer[dynsec.State]) *accounts {
	a := &accounts{state: state, anonymous: &entry{}, live: map[string]*entry{}}
	a.anonymous.rights.Store(state.Load().AnonymousRights())
	return a
}

// take gives an account of a username, known or not.
func (a *accounts) take(username string) *Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.live[username]
	if e == nil {
		e = &entry{}
		e.refresh(a.state.Load(), username)
		a.live[username] = e
	}
	e.holders++
	return &Account{entry: e, cuts: e.cuts.Load(), accounts: a, username: username}
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

// refresh brings the entries that a published change concerns up to date and
// then marks those that it cuts. The caller has the turn.
func (a *accounts) refresh(s *dynsec.State, changes []dynsec.Change, cuts []dynsec.Cut) {
	c := concern(changes, cuts)
	if c.anonymous {
		a.anonymous.rights.Store(s.AnonymousRights())
	}
	for username, e := range a.concerned(c) {
		e.refresh(s, username)
	}
	a.epoch.Add(1)
	for _, cut := range cuts {
		a.mark(cut)
	}
}

func (a *accounts) mark(cut dynsec.Cut) {
	if cut.Anonymous {
		a.anonymous.cuts.Add(1)
		return
	}
	a.mu.Lock()
	e := a.live[cut.Username]
	a.mu.Unlock()
	if e != nil {
		e.cuts.Add(1)
	}
}

// concerned gives the live entries among those concerned.
func (a *accounts) concerned(c concerned) map[string]*entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.everybody {
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

// concerned is whose rights may differ after a change.
type concerned struct {
	everybody bool
	anonymous bool
	usernames map[string]struct{}
}

// concern works out whom changes concern. The cuts name all whose rights
// changed, so nothing need walk the clients, but for two cases: default access
// cuts nobody, and a client that is new may have its predecessor's connections.
func concern(changes []dynsec.Change, cuts []dynsec.Cut) concerned {
	c := concerned{usernames: map[string]struct{}{}}
	for _, change := range changes {
		switch ch := change.(type) {
		case dynsec.PutClient:
			c.usernames[ch.Username] = struct{}{}
		case dynsec.PutDefaults, dynsec.Clear:
			c.everybody, c.anonymous = true, true
		}
	}
	for _, cut := range cuts {
		c.anonymous = c.anonymous || cut.Anonymous
		if !cut.Anonymous {
			c.usernames[cut.Username] = struct{}{}
		}
	}
	return c
}
