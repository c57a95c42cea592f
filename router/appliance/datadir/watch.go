package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/storage"
)

// lookEvery is the interval between two checks of the files of a running service.
const lookEvery = time.Second

// checkShare bounds the share of the time in which databases are checked for damage: a
// check that took a second is followed by a pause of at least a hundred.
const checkShare = 100

// Watcher watches the files of a running service: whether they are still those that it
// has open, and whether they are damaged.
type Watcher struct {
	log      *slog.Logger
	interval time.Duration
	paths    []string // of the databases
	opened   map[string]os.FileInfo
	lost     chan error

	damage atomic.Pointer[damage]
	stop   context.CancelFunc
	tasks  sync.WaitGroup
}

// Watch starts to watch the databases of the directory, which must be open, and other
// files, by their names below it. Interval is the minimum time between two checks for
// damage. The watcher must be closed.
func (d Directory) Watch(ctx context.Context, interval time.Duration, log *slog.Logger, others ...string) (*Watcher, error) {
	w := &Watcher{log: log, interval: interval, opened: map[string]os.FileInfo{}, lost: make(chan error, 1)}
	for _, name := range d.Databases {
		path := d.path(name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // this service does not use it
		}
		w.paths = append(w.paths, path)
	}
	for _, path := range w.paths {
		if err := errors.Join(w.note(path, true), w.note(path+"-wal", false)); err != nil {
			return nil, err
		}
	}
	for _, name := range others {
		if err := w.note(d.path(name), true); err != nil {
			return nil, err
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	w.tasks.Go(func() { w.look(running) })
	w.tasks.Go(func() { w.check(running) })
	return w, nil
}

// note records which file has a path.
func (w *Watcher) note(path string, required bool) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look after %s: %w", path, err)
	}
	w.opened[path] = info
	return nil
}

// Lost yields an error when a file was deleted or replaced. What is written afterwards
// is lost, so the service must end.
func (w *Watcher) Lost() <-chan error { return w.lost }

// damage is the result of a check, and its file.
type damage struct {
	path string
	err  error
}

// Damage returns the damage that the checks have found, nil for none, and its file.
func (w *Watcher) Damage() (path string, err error) {
	if found := w.damage.Load(); found != nil {
		return found.path, found.err
	}
	return "", nil
}

// Close stops watching.
func (w *Watcher) Close() error {
	w.stop()
	w.tasks.Wait()
	return nil
}

// look compares the files with those that were opened until one is lost.
func (w *Watcher) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.compare(); err != nil {
				w.log.Error("a file of the data directory is lost; the service ends", "error", err)
				w.lost <- err
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// compare returns an error for the first file that is not the one that was opened.
func (w *Watcher) compare() error {
	for _, path := range slices.Sorted(maps.Keys(w.opened)) {
		now, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return lostError(path, "deleted")
		case err == nil && !os.SameFile(now, w.opened[path]):
			return lostError(path, "replaced")
		}
	}
	return nil
}

func lostError(path, how string) error {
	return fmt.Errorf("%s was %s while the service used it, so what is written is lost and the service ends: put the file back from a backup, and stop the service before its files are changed", path, how)
}

// check checks for damage periodically, until it finds some.
func (w *Watcher) check(ctx context.Context) {
	for {
		began := time.Now()
		for _, path := range bySize(w.paths) {
			err := storage.QuickCheck(ctx, path)
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, storage.ErrDamaged) || errors.Is(err, storage.ErrForeign) {
				w.tell(path, err)
				return
			}
			if err != nil {
				w.log.Warn("a database could not be checked for damage", "path", path, "error", err)
			}
		}
		pause := time.NewTimer(max(w.interval, checkShare*time.Since(began)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

func (w *Watcher) tell(path string, err error) {
	w.log.Error("a database is damaged", "path", path, "error", err)
	w.damage.Store(&damage{path, err})
}

// bySize returns the paths, ordered by the size of the files.
func bySize(paths []string) []string {
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	sorted := slices.Clone(paths)
	slices.SortFunc(sorted, func(a, b string) int { return int(min(max(size(a)-size(b), -1), 1)) })
	return sorted
}
