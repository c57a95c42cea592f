package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"sync"
	"sync/atomic"

	"signalbox/broker/dynsec"
)

const (
	maxCachedCredentials = 1 << 17 // credentials kept in the cache; beyond, an arbitrary one is removed
	loginAttempts        = 3       // how often a log-in starts over because its record changed meanwhile
)

// ErrWaits means that a log-in cannot be decided at once.
var ErrWaits = errors.New("the log-in has to wait")

// Credentials are what a connecting client presents. An empty username counts as none.
type Credentials struct {
	Username    string
	HasUsername bool
	Password    []byte
	HasPassword bool
	ClientID    string
	AtOnce      bool // return ErrWaits where the log-in has to wait for the file or a hash
	// Recheck is called when the password is about to be verified, which may be long after
	// the start of the log-in, and when it was, since others are verified at the same time; nil if
	// there is nothing to check. Its error is the outcome, whether or not the password is right.
	Recheck func() error
	// WhileConnected returns a context that ends when the client disconnects, and a
	// function that ends the watch; nil if that cannot be detected.
	WhileConnected func(context.Context) (context.Context, func())
}

// Authenticate checks the credentials of a client with a username and returns its account.
// Every refusal is ErrNotAuthorized and takes the time of verifying one password, so that
// neither error nor delay distinguishes a known name from an unknown one; any other error
// means that the log-in could not be decided, or, with AtOnce, not without waiting. Clients without username are refused here:
// see Anonymous.
//
// The account is acquired first, then record and hash are read, then the password is
// verified, and then the account must not have been revoked; otherwise the log-in starts over.
func (c *Control) Authenticate(ctx context.Context, cr Credentials) (*Account, error) {
	if !cr.HasUsername || cr.Username == "" || !cr.HasPassword || len(cr.Password) == 0 {
		return nil, ErrNotAuthorized
	}
	for range loginAttempts {
		a := c.accounts.acquire(cr.Username)
		err := c.verify(ctx, cr)
		if err == nil && !a.Revoked() {
			return a, nil
		}
		a.Release()
		if err != nil {
			return nil, err
		}
	}
	return nil, ErrNotAuthorized
}

// verify checks credentials against the record and the stored hash. It does the same work
// whether or not the record permits the log-in. The file may be ahead of the state by a
// change that is just being published; a client must be valid in both.
//
// Without any change since a log-in with the same password the file is not read. The version is
// counted before the clients to disconnect are revoked, and the account was acquired before: it is
// revoked if the password has changed since.
func (c *Control) verify(ctx context.Context, cr Credentials) error {
	if !c.credentials.lock(cr.AtOnce) {
		return ErrWaits
	}
	login := credential{quick: c.credentials.proof(cr, "")}
	login.version = c.credentials.version.Load()
	clientID, disabled, _, known := c.state.Load().Login(cr.Username)
	mayLogIn := known && !disabled && (clientID == "" || clientID == cr.ClientID)
	if mayLogIn && c.credentials.current(cr.Username, login) {
		c.credentials.replacing.RUnlock()
		return nil
	}
	if cr.AtOnce {
		c.credentials.replacing.RUnlock()
		return ErrWaits
	}
	owner, encoded, err := c.store.password(ctx, cr.Username)
	c.credentials.replacing.RUnlock()
	if err != nil {
		return err
	}
	if encoded == "" {
		encoded = c.credentials.dummyHash
	}
	login.proof = c.credentials.proof(cr, encoded)
	correct := c.credentials.contains(cr.Username, login.proof)
	if !correct {
		if correct, err = c.verifyPassword(ctx, cr, owner, encoded); err != nil {
			return err
		}
	}
	if !correct || !mayLogIn || owner != cr.Username {
		return ErrNotAuthorized
	}
	c.credentials.add(cr.Username, login)
	return nil
}

// verifyPassword compares a password with an encoded hash, at the cost of the hash. A hash
// that cannot be verified matches no password.
func (c *Control) verifyPassword(ctx context.Context, cr Credentials, owner, encoded string) (bool, error) {
	if err := c.awaitHashing(ctx, cr); err != nil {
		return false, fmt.Errorf("wait to verify a password: %w", err)
	}
	defer c.hashing.release()
	if dynsec.IsMemoryHard(encoded) {
		if err := c.memoryHard.acquire(ctx); err != nil {
			return false, fmt.Errorf("wait to verify a password: %w", err)
		}
		defer c.memoryHard.release()
	}
	if err := cr.recheck(); err != nil {
		return false, err
	}
	if dynsec.IsWeakHash(encoded) { // too fast: the delay would show who has one
		dynsec.VerifyPassword(c.credentials.dummyHash, cr.Password) //nolint:errcheck // only its time counts
	}
	correct, err := dynsec.VerifyPassword(encoded, cr.Password)
	if err != nil {
		c.log.Error("a stored password hash cannot be verified", slog.Any("error", err), slog.String("username", owner))
	}
	return correct, cr.recheck()
}

func (cr *Credentials) recheck() error {
	if cr.Recheck == nil {
		return nil
	}
	return cr.Recheck()
}

// awaitHashing waits to verify a password, at most as long as the client stays connected.
func (c *Control) awaitHashing(ctx context.Context, cr Credentials) error {
	if c.hashing.tryAcquire() {
		return nil
	}
	if cr.WhileConnected != nil {
		var done func()
		ctx, done = cr.WhileConnected(ctx)
		defer done()
	}
	return c.hashing.acquire(ctx)
}

// proof is a MAC over a username, a password and the stored hash that they were verified
// against. It cannot be inverted without the key, which never leaves the process, and
// matches nothing once the stored hash has changed.
type proof [sha256.Size]byte

// credential is a successful log-in. While the version is the same, the hash that it was verified
// against is the stored one.
type credential struct {
	proof, quick proof // with the stored hash, and without
	version      uint64
}

// credentialCache remembers successful log-ins, one per username, so that a reconnect costs
// no password hashing. Failures are not cached. A proof includes the stored hash, so no
// order of events makes an old password valid; a quick one is valid for one version only.
type credentialCache struct {
	macs      sync.Pool     // of HMACs under the key of the process
	dummyHash string        // verified while no client has a password
	version   atomic.Uint64 // counts published changes

	replacing sync.RWMutex // locked for writing while a whole state replaces another

	mu    sync.Mutex // guards known
	known map[string]credential
}

func newCredentialCache(dummyHash string) *credentialCache {
	key := make([]byte, sha256.Size)
	rand.Read(key) //nolint:errcheck // never fails
	return &credentialCache{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }},
		dummyHash: dummyHash, known: map[string]credential{}}
}

// lock locks replacing for reading, and returns false if that has to wait and must not.
func (l *credentialCache) lock(atOnce bool) bool {
	if atOnce {
		return l.replacing.TryRLock()
	}
	l.replacing.RLock()
	return true
}

func (l *credentialCache) proof(cr Credentials, encoded string) (p proof) {
	mac := l.macs.Get().(hash.Hash)
	defer l.macs.Put(mac)
	mac.Reset()
	for _, part := range [][]byte{[]byte(cr.Username), []byte(encoded), cr.Password} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	mac.Sum(p[:0])
	return p
}

func (l *credentialCache) contains(username string, p proof) bool {
	known, ok := l.find(username)
	return ok && hmac.Equal(known.proof[:], p[:])
}

// current reports whether a log-in with the same password succeeded in the same version.
func (l *credentialCache) current(username string, c credential) bool {
	known, ok := l.find(username)
	return ok && known.version == c.version && hmac.Equal(known.quick[:], c.quick[:])
}

func (l *credentialCache) find(username string) (credential, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.known[username]
	return c, ok
}

// add caches a successful log-in.
func (l *credentialCache) add(username string, c credential) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[username]; !ok && len(l.known) >= maxCachedCredentials {
		for other := range l.known {
			delete(l.known, other)
			break
		}
	}
	l.known[username] = c
}

// remove removes the entries of clients whose record changed. Their proofs would not match
// a new hash anyway; this frees their memory.
func (l *credentialCache) remove(changes []dynsec.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, change := range changes {
		switch ch := change.(type) {
		case dynsec.PutClient:
			delete(l.known, ch.Username)
		case dynsec.DropClient:
			delete(l.known, ch.Username)
		case dynsec.PutClients, dynsec.Clear:
			clear(l.known)
		}
	}
}

// semaphore bounds how many goroutines hash at a time.
type semaphore chan struct{}

// acquire waits for a place. Its error is the cause of the context's end.
func (s semaphore) acquire(ctx context.Context) error {
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

// tryAcquire acquires a place without waiting, and reports whether it did.
func (s semaphore) tryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s semaphore) release() { <-s }
