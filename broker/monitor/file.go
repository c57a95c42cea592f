package monitor

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"signalbox/broker/storage"
)

// file is the file of the history. The service can do without what it holds: one that is
// damaged, or that this release did not write, is moved aside, and a new one is created.
type file struct {
	path string
	log  *slog.Logger

	mu     sync.RWMutex // guards what follows; locked for reading while store is used
	store  *store       // nil if it could not be opened anew
	closed bool
}

// asideSuffix is appended to the name of a file that is moved aside. A later one replaces it.
const asideSuffix = ".unusable"

// open opens or creates the file. One that cannot be opened for a reason that may pass, as
// a full disk or another process that has it, stays where it is.
func (f *file) open(ctx context.Context) (err error) {
	if f.store, err = openStore(ctx, f.path, f.log); err != nil && f.isUseless(err) {
		return f.renew(ctx, err)
	}
	return err
}

// isUseless reports whether no later attempt can open the file either.
func (f *file) isUseless(err error) bool {
	info, e := os.Stat(f.path)
	return f.isDamage(err) || errors.Is(err, storage.ErrNewer) || e == nil && !info.Mode().IsRegular()
}

// renew moves the file aside and creates a new one. If that fails, as on a full disk, the
// file is moved back.
func (f *file) renew(ctx context.Context, cause error) (err error) {
	aside := f.path + asideSuffix
	if err := move(f.path, aside); err != nil {
		return errors.Join(cause, err)
	}
	if f.store, err = openStore(ctx, f.path, f.log); err != nil {
		return errors.Join(err, move(aside, f.path))
	}
	f.log.Warn("the metric history cannot be used: it was moved aside, and a new one begins", "path", aside, "error", storage.Explain(f.path, cause))
	return nil
}

// access calls do with the file. A file that was lost before, or that do finds damaged, is
// opened anew first, so that the history continues.
func (f *file) access(ctx context.Context, do func(*store) error) error {
	used, err := f.attempt(do)
	if used != nil && !f.isDamage(err) {
		return err
	}
	if e := f.reopen(ctx, used, err); e != nil {
		return e
	}
	_, err = f.attempt(do)
	return err
}

// errNotOpen means that the file was closed or lost.
var errNotOpen = errors.New("the file of the metric history is not open")

// attempt calls do with the file and returns it, or nil if there is none to use.
func (f *file) attempt(do func(*store) error) (*store, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.store == nil || f.store.isLost() {
		return nil, errNotOpen
	}
	return f.store, do(f.store)
}

// isDamage reports whether an error means that the content of the file is lost.
func (f *file) isDamage(err error) bool {
	err = storage.Explain(f.path, err)
	return errors.Is(err, storage.ErrDamaged) || errors.Is(err, storage.ErrForeign)
}

// reopen opens the file anew after it was lost, or after damage was found in it, unless
// another goroutine has done so meanwhile.
func (f *file) reopen(ctx context.Context, damaged *store, cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.store
	switch {
	case f.closed:
		return errNotOpen
	case old == nil:
		return f.open(ctx)
	case old.isLost():
		f.log.Warn("the file of the metric history was deleted or replaced while the service used it", "path", f.path)
		f.store = nil
		old.close() //nolint:errcheck // what it stores is lost
		if err := removeSideFiles(f.path); err != nil {
			return err
		}
		return f.open(ctx)
	case old == damaged:
		f.store = nil
		old.close() //nolint:errcheck // it is damaged
		return f.renew(ctx, cause)
	}
	return nil
}

// close closes the file, which is not opened anew after that.
func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.store
	f.store, f.closed = nil, true
	if last == nil {
		return nil
	}
	return last.close()
}

// sideFiles are the suffixes of the files that SQLite puts beside a database.
var sideFiles = []string{"-wal", "-shm"}

func removeSideFiles(path string) error {
	for _, suffix := range sideFiles {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// move renames a database with its WAL, and replaces what has the new name.
func move(from, to string) error {
	if err := removeSideFiles(to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := os.Rename(from+"-wal", to+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeSideFiles(from)
}
