package auth

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/alexedwards/argon2id"
	"golang.org/x/crypto/argon2"
)

// hashing is the cost of a password: OWASP's second choice, 19 MiB and two passes.
var hashing = &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// dummyHash returns a hash with the given cost that matches no known password. It is
// verified if there is no other, so that a missing account takes as long as a wrong
// password.
func dummyHash(p *argon2id.Params) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$c2lnbmFsYm94IGRlY295IQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		argon2.Version, p.Memory, p.Iterations, p.Parallelism)
}

// waitersPerSlot bounds the queue for hashing, at about one second of work.
const waitersPerSlot = 32

// hasher limits how many hashes run concurrently (19 MiB and a core each) and how many
// callers wait for one. With a full queue a new caller gets *TooManyAttempts.
type hasher struct {
	running  chan struct{} // running
	admitted chan struct{} // running or waiting
}

func newHasher() *hasher {
	n := runtime.NumCPU()
	return &hasher{running: make(chan struct{}, n), admitted: make(chan struct{}, n*(1+waitersPerSlot))}
}

func (h *hasher) run(ctx context.Context, work func() error) error {
	select {
	case h.admitted <- struct{}{}:
		defer func() { <-h.admitted }()
	default:
		return &TooManyAttempts{RetryAfter: time.Second}
	}
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
		return work()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// HashPassword hashes a password with argon2id, as a PHC string. It waits while as many
// hashes are running as there are processors, and returns ctx's cause, or
// *TooManyAttempts if too many callers wait already.
func (a *Auth) HashPassword(ctx context.Context, password string) (hash string, err error) {
	err = a.hasher.run(ctx, func() (err error) {
		hash, err = argon2id.CreateHash(password, a.hashing)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return hash, nil
}

// verify compares in constant time. An empty hash matches nothing and takes as long.
func (a *Auth) verify(ctx context.Context, password, hash string) (ok bool, err error) {
	known := hash != ""
	if !known {
		hash = dummyHash(a.hashing)
	}
	err = a.hasher.run(ctx, func() (err error) {
		ok, err = argon2id.ComparePasswordAndHash(password, hash)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("verify password: %w", err)
	}
	return ok && known, nil
}
