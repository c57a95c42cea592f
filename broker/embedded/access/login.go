package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"

	"signalbox/broker/dynsec"
)

const (
	maxRemembered = 1 << 17 // log-ins kept in memory; beyond, an arbitrary one is forgotten
	loginAttempts = 3       // how often a log-in begins anew because its record changed meanwhile
)

// Credentials are what a connecting client presents. An empty username is
// taken as none.
type Credentials struct {
	Username    string
	HasUsername bool
	Password    []byte
	HasPassword bool
	ClientID    string
	// Wanted is asked once more when it is the password's turn to be verified,
	// which may be long after; nil where nobody changes his mind. Its error is
	// the outcome.
	Wanted func() error
	// WhileHere returns a context that ends when the client leaves, and a
	// function that ends the watch; nil where that cannot be told.
	WhileHere func(context.Context) (context.Context, func())
}

// Authenticate checks the credentials of a client with a username and gives its
// account. Every refusal is ErrNotAuthorized and takes the time of verifying
// one password, so that neither answer nor delay tells a known name from an
// unknown one; any other error means that it could not be decided. Clients
// without username are refused here: see Anonymous.
func (c *Control) Authenticate(ctx context.Context, cr Credentials) (*Account, error) {
	if !cr.HasUsername || cr.Username == "" || !cr.HasPassword || len(cr.Password) == 0 {
		return nil, ErrNotAuthorized
	}
	for range loginAttempts {
		a := c.accounts.take(cr.Username)
		err := c.verify(ctx, cr)
		if err == nil && !a.Cut() {
			return a, nil
		}
		a.Release()
		if err != nil {
			return nil, err
		}
	}
	return nil, ErrNotAuthorized
}

// verify checks credentials against the record and the stored hash. It does the
// same work whether or not the record lets the client in. The file may be ahead
// of the state by a change that is just being published; a client must be in
// both.
func (c *Control) verify(ctx context.Context, cr Credentials) error {
	c.logins.changing.RLock()
	clientID, disabled, _, known := c.state.Load().Login(cr.Username)
	owner, encoded, err := c.store.password(ctx, cr.Username)
	c.logins.changing.RUnlock()
	if err != nil {
		return err
	}
	if encoded == "" {
		encoded = c.logins.decoy
	}
	proof := c.logins.proof(cr, encoded)
	correct := c.logins.knows(cr.Username, proof)
	if !correct {
		if correct, err = c.verifyPassword(ctx, cr, owner, encoded); err != nil {
			return err
		}
	}
	mayLogIn := known && !disabled && (clientID == "" || clientID == cr.ClientID) && owner == cr.Username
	if !correct || !mayLogIn {
		return ErrNotAuthorized
	}
	c.logins.remember(cr.Username, proof)
	return nil
}

// verifyPassword compares a password with an encoded hash, at the cost of the
// hash. One that cannot be verified fits no password.
func (c *Control) verifyPassword(ctx context.Context, cr Credentials, owner, encoded string) (bool, error) {
	if err := c.awaitHashing(ctx, cr); err != nil {
		return false, fmt.Errorf("wait to verify a password: %w", err)
	}
	defer c.hashing.release()
	if cr.Wanted != nil {
		if err := cr.Wanted(); err != nil {
			return false, err
		}
	}
	if dynsec.IsWeakHash(encoded) { // takes no time, which would tell who has one
		dynsec.VerifyPassword(c.logins.decoy, cr.Password) //nolint:errcheck // only its time counts
	}
	correct, err := dynsec.VerifyPassword(encoded, cr.Password)
	if err != nil {
		c.log.Error("a stored password hash cannot be verified", slog.Any("err", err), slog.String("username", owner))
	}
	return correct, nil
}

// awaitHashing waits for a password's turn to be verified, as long as the client
// does.
func (c *Control) awaitHashing(ctx context.Context, cr Credentials) error {
	if c.hashing.tryAcquire() {
		return nil
	}
	if cr.WhileHere != nil {
		var done func()
		ctx, done = cr.WhileHere(ctx)
		defer done()
	}
	return c.hashing.acquire(ctx)
}

// proof stands for a username, a password and the stored hash that they were
// right for. It cannot be turned back without the key, which never leaves the
// process, and is worthless once the stored hash is another.
type proof [sha256.Size]byte

// logins remembers log-ins that succeeded, one per username, so that a
// reconnect costs no password hashing.
type logins struct {
	key   []byte
	decoy string // a hash to verify against while no client has a password

	changing sync.RWMutex // written while a whole state takes the place of another

	mu    sync.Mutex // guards known
	known map[string]proof
}

func newLogins(decoy string) *logins {
	l := &logins{key: make([]byte, sha256.Size), decoy: decoy, known: map[string]proof{}}
	rand.Read(l.key) //nolint:errcheck // never fails
	return l
}

func (l *logins) proof(cr Credentials, encoded string) (p proof) {
	mac := hmac.New(sha256.New, l.key)
	for _, part := range [][]byte{[]byte(cr.Username), []byte(encoded), cr.Password} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	mac.Sum(p[:0])
	return p
}

func (l *logins) knows(username string, p proof) bool {
	l.mu.Lock()
	known, ok := l.known[username]
	l.mu.Unlock()
	return ok && hmac.Equal(known[:], p[:])
}

// remember keeps the proof of a log-in that succeeded.
func (l *logins) remember(username string, p proof) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[username]; !ok && len(l.known) >= maxRemembered {
		for other := range l.known {
			delete(l.known, other)
			break
		}
	}
	l.known[username] = p
}

// forget drops the log-ins of clients whose record changed. Their proofs would
// not fit a new hash anyway; this keeps them from lingering.
func (l *logins) forget(changes []dynsec.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, change := range changes {
		switch ch := change.(type) {
		case dynsec.PutClient:
			delete(l.known, ch.Username)
		case dynsec.DropClient:
			delete(l.known, ch.Username)
		case dynsec.Clear:
			clear(l.known)
		}
	}
}

// slots bounds how many goroutines hash at a time.
type slots chan struct{}

// acquire waits for a slot. Its error is why the context ended.
func (s slots) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryAcquire takes a slot if there is one, and reports whether there was.
func (s slots) tryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) release() { <-s }
