// Package access is the durable access control of the embedded broker: it stores clients,
// groups, roles and default access in SQLite and in memory, applies dynamic-security
// commands to both as one, authenticates connecting clients and provides the rights by
// which the broker checks every packet.
//
// Commands, responses and the evaluation of rights are package dynsec's. This package must
// not import an MQTT library, net/http, or any package of this module but broker,
// broker/dynsec, broker/embedded/schema and broker/storage.
package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/broker/dynsec/pbkdf2"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/storage"
)

// DefaultPasswordIterations is the cost of new password hashes. It is chosen so that
// thousands of devices that reconnect at once after a restart are verified within seconds
// on two cores.
const DefaultPasswordIterations = 10_000

// ErrNotAuthorized is the error of every refused log-in, whatever the reason.
var ErrNotAuthorized = errors.New("not authorised")

// Options configure the access control. File is the broker's file if others use it too; it
// must stay open until Close has returned. Otherwise Path names the file, which is created
// with mode 0600 if missing. PasswordIterations and Log have defaults. MinPasswordLength is
// the minimum number of characters of a password that a command sets, 0 for any; imported
// passwords are exempt.
type Options struct {
	File               *storage.File
	Path               string
	PasswordIterations int
	MinPasswordLength  int
	Log                *slog.Logger
}

// Control is the access control of one broker. All methods are safe for
// concurrent use. It implements broker.Access and broker.AccessTransfer.
type Control struct {
	iterations int
	minLength  int // of a password that a command sets, in characters; 0 for any
	log        *slog.Logger

	store       *store
	writer      *writer
	accounts    *accounts
	credentials *credentialCache
	hashing     semaphore // as many as keep the processors busy
	memoryHard  semaphore // of these, those that take much memory

	state        atomic.Pointer[dynsec.State] // the stored state
	initialised  atomic.Bool
	onDisconnect atomic.Pointer[func([]dynsec.Disconnect)]
	connections  atomic.Pointer[func(username string) []string]

	committing sync.Mutex                 // held while a change is stored and published; guards what follows
	proposal   *proposal                  // the one that the writer waits for
	failed     uint64                     // the index of a change that could not be applied, or 0
	replicator atomic.Pointer[Replicator] // nil for a broker that makes changes by itself
	applied    progress                   // in the shared log; as stored

	wg          sync.WaitGroup // the writer
	stopWaiting func()         // stops waiting for other brokers
	closeOnce   sync.Once
	closed      chan struct{} // closed once the writer has returned and the store is closed
	closeErr    error         // valid once closed is closed
}

var (
	_ broker.Access         = (*Control)(nil)
	_ broker.AccessTransfer = (*Control)(nil)
)

// Open opens or creates the file, migrates its schema and reads it. Its errors are
// sentences that say what to do.
func Open(ctx context.Context, o Options) (*Control, error) {
	o.setDefaults()
	st, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	c, err := newControl(ctx, o, st)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	running, stopWaiting := context.WithCancel(context.WithoutCancel(ctx))
	c.stopWaiting = stopWaiting
	c.wg.Go(func() { c.writer.run(running) })
	return c, nil
}

// Check returns an error, as Open would, for a file that cannot be written to or that a
// newer release wrote; see [storage.Check]. A file that does not exist is valid.
func Check(ctx context.Context, path string) error { return schema.Check(ctx, path) }

func (o *Options) setDefaults() {
	if o.PasswordIterations == 0 {
		o.PasswordIterations = DefaultPasswordIterations
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// newControl loads the stored state and builds everything but the writer's goroutine.
func newControl(ctx context.Context, o Options, st *store) (*Control, error) {
	state, initialised, index, err := st.load(ctx)
	if err != nil {
		return nil, storage.Explain(st.file.Path(), fmt.Errorf("read the access control in %s: %w", st.file.Path(), err))
	}
	dummyHash, err := dynsec.HashPassword([]byte(rand.Text()), o.PasswordIterations)
	if err != nil {
		return nil, fmt.Errorf("prepare password verification: %w", err)
	}
	c := &Control{
		iterations: o.PasswordIterations, minLength: o.MinPasswordLength, log: o.Log, store: st,
		credentials: newCredentialCache(dummyHash), hashing: make(semaphore, pbkdf2.Callers()),
		memoryHard: make(semaphore, runtime.NumCPU()), closed: make(chan struct{}),
	}
	c.applied.set(uint64(index))
	c.state.Store(state)
	c.initialised.Store(initialised)
	c.accounts = newAccounts(&c.state)
	c.writer = newWriter(c)
	return c, nil
}

// Initialised reports whether anything was ever stored: by Bootstrap, an import or a
// command.
func (c *Control) Initialised() bool { return c.initialised.Load() }

// OnDisconnect sets the function that receives the clients to disconnect after a change made
// through the methods of broker.Access and broker.AccessTransfer, or by a request whose
// caller has left. It is called when the change is in force, on the goroutine of the caller
// or, if that has left, of the writer; so it must not block, nor call a method of Control
// that changes anything.
func (c *Control) OnDisconnect(f func([]dynsec.Disconnect)) { c.onDisconnect.Store(&f) }

// SetConnections sets the function that returns the addresses of a username's live
// connections, for the records that show them. It is called without any lock held, possibly
// on the writer's goroutine, so it must not block.
func (c *Control) SetConnections(f func(username string) []string) { c.connections.Store(&f) }

// Close refuses new changes, commits those that are queued, and closes the file unless it
// came with the Options. The context bounds the waiting only: after it has ended, closing
// continues in the background, but no longer waits for other brokers.
func (c *Control) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		c.writer.stop()
		go func() {
			c.wg.Wait()
			c.stopWaiting()
			c.closeErr = c.store.close()
			close(c.closed)
		}()
	})
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		c.stopWaiting()
		return fmt.Errorf("close the access control: %w", ctx.Err())
	}
}

// disconnect passes the clients to disconnect to OnDisconnect's function.
func (c *Control) disconnect(disconnects []dynsec.Disconnect) {
	if f := c.onDisconnect.Load(); f != nil && len(disconnects) > 0 {
		(*f)(disconnects)
	}
}

// live returns the connections of a username in the form of its record.
func (c *Control) live(username string) []broker.Connection {
	connections := []broker.Connection{}
	f := c.connections.Load()
	if f == nil {
		return connections
	}
	for _, address := range (*f)(username) {
		connections = append(connections, broker.Connection{Address: address})
	}
	return connections
}

// Ping returns an error if changes cannot be stored.
func (c *Control) Ping(ctx context.Context) error {
	return withOp(c.store.ping(ctx), "ping")
}
