package storage

import (
	"context"
	"path/filepath"
	"sync"
)

// openFiles are the files that this process has open, for those who copy them: SQLite knows
// nothing of the lock of a File.
var openFiles registry

type registry struct {
	mu     sync.Mutex // guards what follows
	byPath map[string]*File
}

func (r *registry) add(f *File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byPath == nil {
		r.byPath = map[string]*File{}
	}
	r.byPath[f.path] = f
}

func (r *registry) remove(f *File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byPath[f.path] == f {
		delete(r.byPath, f.path)
	}
}

func (r *registry) at(path string) *File {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byPath[path]
}

// lockOpen locks the files at the paths that this process has open, in their order. No writer
// holds the lock of one file while it waits for that of another.
func lockOpen(ctx context.Context, paths []string) (unlock func(), err error) {
	var held []*File
	unlock = func() {
		for _, f := range held {
			f.Unlock()
		}
	}
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		f := openFiles.at(abs)
		if f == nil {
			continue
		}
		if err := f.Lock(ctx); err != nil {
			unlock()
			return nil, err
		}
		held = append(held, f)
	}
	return unlock, nil
}
