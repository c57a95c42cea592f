package cluster

import (
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// watchedLog is raft's log. It keeps the error of a change that failed, which raft only logs.
type watchedLog struct {
	raft.LogStore
	failures    *atomic.Uint64        // changes that failed
	failed      atomic.Pointer[error] // why the last of them did
	command     atomic.Uint64         // the last command that was appended
	appendError atomic.Pointer[error] // why nothing can be appended; nil since the last append that succeeded
}

// IsMonotonic returns true: the log has no gaps.
func (*watchedLog) IsMonotonic() bool { return true }

// StoreLog appends an entry.
func (w *watchedLog) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries.
func (w *watchedLog) StoreLogs(logs []*raft.Log) error {
	err := w.note(w.LogStore.StoreLogs(logs))
	if err != nil {
		w.appendError.Store(&err)
		return err
	}
	w.appendError.Store(nil)
	w.noteCommand(logs)
	return nil
}

// noteCommand records the last command among entries.
func (w *watchedLog) noteCommand(logs []*raft.Log) {
	for _, l := range slices.Backward(logs) {
		if l.Type == raft.LogCommand {
			w.command.Store(l.Index)
			return
		}
	}
}

// findCommand finds the last command of a log that is opened.
func (w *watchedLog) findCommand() error {
	first, last, err := w.ends()
	for i := last; err == nil && i >= first && i > 0 && w.command.Load() == 0; i-- {
		l := new(raft.Log)
		if err = w.GetLog(i, l); err == nil {
			w.noteCommand([]*raft.Log{l})
		}
	}
	return err
}

func (w *watchedLog) ends() (first, last uint64, err error) {
	if first, err = w.FirstIndex(); err == nil {
		last, err = w.LastIndex()
	}
	return first, last, err
}

// DeleteRange deletes entries at one end.
func (w *watchedLog) DeleteRange(from, to uint64) error {
	return w.note(w.LogStore.DeleteRange(from, to))
}

func (w *watchedLog) note(err error) error {
	if err != nil {
		w.failed.Store(&err)
		w.failures.Add(1)
	}
	return err
}

// has reports whether the log has an entry.
func (w *watchedLog) has(index uint64) bool {
	var l raft.Log
	return w.GetLog(index, &l) == nil
}
