package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"signalbox/broker/embedded/engine"
)

// ReceiverOptions configure a Receiver. Self and Dir are required.
type ReceiverOptions struct {
	Self    int    // this node's number
	Dir     string // for files of its own
	Agreer  Agreer // without one no replica is promoted
	Log     *slog.Logger
	DiskLow func() bool // reports that nothing more should be stored; nil means never
	MaxSize int64       // bounds the files together, in bytes; 16 GiB
}

// Receiver stores the replicas of other nodes' sessions. All methods are safe for concurrent use.
type Receiver struct {
	o ReceiverOptions

	mu     sync.Mutex // guards what follows; held briefly
	nodes  map[int]*origin
	closed bool
}

// origin is a node whose sessions have replicas here.
type origin struct {
	node int
	lock chan struct{} // holds one while a request is served; guards what follows

	complete *replica // nil for none
	loading  *replica // that replaces it once it is complete; nil for none
	body     []byte   // of a request, as far as it has come
	key      bodyKey  // of that request
	closed   bool
}

// bodyKey distinguishes requests that come in pieces.
type bodyKey struct {
	kind          byte
	stream, total uint64
}

// OpenReceiver opens the replicas in a directory, which it creates. Those that are not complete are deleted.
func OpenReceiver(ctx context.Context, o ReceiverOptions) (*Receiver, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxSize == 0 {
		o.MaxSize = 16 << 30
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of session replicas: %w", err)
	}
	r := &Receiver{o: o, nodes: map[int]*origin{}}
	names, err := findReplicas(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if err := r.open(ctx, n); err != nil {
			return nil, errors.Join(err, r.Close(ctx))
		}
	}
	return r, nil
}

// open opens a replica and deletes it if it is not complete. An older one of the node is deleted.
func (r *Receiver) open(ctx context.Context, n replicaName) error {
	opened, err := openReplica(ctx, r.o.Dir, n, r.o.Log)
	if err != nil {
		return err
	}
	if !opened.isComplete() {
		return opened.delete(ctx)
	}
	former := r.origin(n.node).complete
	r.origin(n.node).complete = opened
	if former != nil {
		return former.delete(ctx)
	}
	return nil
}

// acquire returns the state of a node and acquires its lock, which release releases. It returns ErrNoReplica after Close.
func (r *Receiver) acquire(ctx context.Context, node int) (*origin, error) {
	o := r.origin(node)
	if o == nil {
		return nil, ErrNoReplica
	}
	select {
	case o.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the replica of another node's sessions: %w", context.Cause(ctx))
	}
	if o.closed {
		o.release()
		return nil, ErrNoReplica
	}
	return o, nil
}

func (o *origin) release() { <-o.lock }

// origin returns the state of a node, nil after Close.
func (r *Receiver) origin(node int) *origin {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.nodes[node]
	if o == nil && !r.closed {
		o = &origin{node: node, lock: make(chan struct{}, 1)}
		r.nodes[node] = o
	}
	return o
}

// Serve returns the response to a request of another node.
func (r *Receiver) Serve(ctx context.Context, from int, request []byte) ([]byte, error) {
	p, err := decodePiece(request)
	if err != nil {
		return nil, err
	}
	o, err := r.acquire(ctx, from)
	if err != nil {
		return nil, err
	}
	defer o.release()
	status, err := r.serve(ctx, o, &p)
	if errors.Is(err, errFormat) {
		return nil, err
	}
	if err != nil {
		r.o.Log.Error("a replica of another node's sessions cannot be stored", "node", from, "error", err)
	}
	return encodeStatus(status), nil
}

// serve serves a request once all of it has come. With an error the status is statusRefused.
func (r *Receiver) serve(ctx context.Context, o *origin, p *piece) (status byte, err error) {
	body, status := o.collect(p)
	switch {
	case status != 0:
		return status, nil
	case r.isPromoted(o):
		return statusEnded, nil
	}
	switch p.kind {
	case kindBegin:
		return r.begin(ctx, o, p.stream)
	case kindComplete:
		return r.complete(ctx, o, p.stream)
	}
	b, err := decodeBatch(body)
	if err != nil {
		return statusRefused, err
	}
	if r.isFull() {
		return statusRefused, errFull
	}
	if p.kind == kindLoad {
		return o.loading.load(p.stream, &b)
	}
	return o.complete.append(p.stream, &b)
}

var errFull = errors.New("as much is stored of other nodes' sessions as may be, or too little disk space is free")

// collect returns the body of a request if p is its last piece, and a status otherwise.
func (o *origin) collect(p *piece) (body []byte, status byte) {
	if key := (bodyKey{p.kind, p.stream, p.total}); p.offset == 0 {
		o.body, o.key = nil, key
	} else if o.key != key || p.offset != uint64(len(o.body)) {
		o.body = nil
		return nil, statusAgain
	}
	if p.offset == 0 && uint64(len(p.bytes)) == p.total {
		return p.bytes, 0
	}
	o.body = append(o.body, p.bytes...)
	if uint64(len(o.body)) < p.total {
		return nil, statusDone
	}
	body, o.body, o.key = o.body, nil, bodyKey{}
	return body, 0
}

// begin begins a replica. The one that is complete stays until this one is.
func (r *Receiver) begin(ctx context.Context, o *origin, stream uint64) (status byte, err error) {
	if r.isFull() {
		return statusRefused, errFull
	}
	number := uint64(1)
	if o.complete != nil {
		number = o.complete.name.number + 1
	}
	if former := o.loading; former != nil {
		o.loading = nil
		if err := former.delete(ctx); err != nil {
			return statusRefused, err
		}
	}
	o.loading, err = openReplica(ctx, r.o.Dir, replicaName{o.node, number, stream}, r.o.Log)
	if err != nil {
		return statusRefused, err
	}
	return statusDone, nil
}

// complete has a replica replace the one before.
func (r *Receiver) complete(ctx context.Context, o *origin, stream uint64) (status byte, err error) {
	if o.complete.is(stream) {
		return statusDone, nil
	}
	if !o.loading.is(stream) {
		return statusUnknown, nil
	}
	if err := o.loading.store.Apply(completeAt, nil); err != nil {
		return statusRefused, err
	}
	former := o.complete
	o.complete, o.loading = o.loading, nil
	if former != nil {
		if err := former.delete(ctx); err != nil {
			r.o.Log.Warn("an older replica of another node's sessions is not deleted; it is at the next start", "error", err)
		}
	}
	return statusDone, nil
}

// isFull reports whether nothing more may be stored.
func (r *Receiver) isFull() bool {
	return r.o.DiskLow != nil && r.o.DiskLow() || sizeOf(r.o.Dir) >= r.o.MaxSize
}

// isPromoted reports whether the sessions of a node have continued from the replica here.
func (r *Receiver) isPromoted(o *origin) bool {
	if r.o.Agreer == nil || o.complete == nil {
		return false
	}
	last := r.o.Agreer.Last(o.node, r.o.Self)
	return last.Kind == Promote && last.Stream == o.complete.name.stream
}

// Promote has the sessions of a node continue from the replica here, if the replica has every change that was
// acknowledged. Nothing is stored in it afterwards, until Adopted. The error is ErrNoReplica, ErrVoid, or that of
// the Agreer: the sessions may not continue then, or not yet.
func (r *Receiver) Promote(ctx context.Context, node int) error {
	o, err := r.acquire(ctx, node) // so that nothing is stored between the decision and isPromoted
	if err != nil {
		return err
	}
	defer o.release()
	if o.complete == nil || r.o.Agreer == nil {
		return ErrNoReplica
	}
	return r.o.Agreer.Agree(ctx, Order{Kind: Promote, From: node, At: r.o.Self, Stream: o.complete.name.stream})
}

// Adopted deletes a replica that was promoted, once this node has stored its sessions as its own.
func (r *Receiver) Adopted(ctx context.Context, node int) error {
	o, err := r.acquire(ctx, node)
	if err != nil {
		return err
	}
	defer o.release()
	if !r.isPromoted(o) {
		return nil
	}
	former := o.complete
	o.complete = nil
	return former.delete(ctx)
}

// ErrNoReplica means that there is no complete replica of a node's sessions here.
var ErrNoReplica = errors.New("there is no complete replica of the node's sessions")

// Load returns the sessions of a node as of the last changes that have come, with stubs of their messages.
func (r *Receiver) Load(ctx context.Context, node int) (*engine.Snapshot, error) {
	o, err := r.acquire(ctx, node)
	if err != nil {
		return nil, err
	}
	defer o.release()
	if o.complete == nil {
		return nil, ErrNoReplica
	}
	return o.complete.store.Load(ctx)
}

// Messages returns messages of a node's sessions by their IDs, which must ascend.
func (r *Receiver) Messages(ctx context.Context, node int, ids []uint64) ([]*engine.Message, error) {
	o, err := r.acquire(ctx, node)
	if err != nil {
		return nil, err
	}
	defer o.release()
	if o.complete == nil {
		return nil, ErrNoReplica
	}
	return o.complete.store.Messages(ctx, ids)
}

// SetPeers deletes the replicas of nodes that are not the other nodes of the cluster.
func (r *Receiver) SetPeers(ctx context.Context, nodes []int) error {
	var removed []*origin
	r.mu.Lock()
	for n, o := range r.nodes {
		if !slices.Contains(nodes, n) {
			delete(r.nodes, n)
			removed = append(removed, o)
		}
	}
	r.mu.Unlock()
	var failures []error
	for _, o := range removed {
		failures = append(failures, o.end(ctx, (*replica).delete))
	}
	return errors.Join(failures...)
}

// Close closes the files.
func (r *Receiver) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	all := r.nodes
	r.nodes = map[int]*origin{}
	r.mu.Unlock()
	var failures []error
	for _, o := range all {
		failures = append(failures, o.end(ctx, (*replica).close))
	}
	return errors.Join(failures...)
}

// end ends the replicas of a node.
func (o *origin) end(ctx context.Context, end func(*replica, context.Context) error) error {
	o.lock <- struct{}{}
	defer o.release()
	o.closed = true
	var failures []error
	for _, r := range []*replica{o.complete, o.loading} {
		if r != nil {
			failures = append(failures, end(r, ctx))
		}
	}
	o.complete, o.loading, o.body = nil, nil, nil
	return errors.Join(failures...)
}

// sizeOf returns the size of the files in a folder, in bytes.
func sizeOf(dir string) (bytes int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}
