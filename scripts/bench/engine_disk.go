//go:build linux

package main

import (
	"errors"
	"os"
	"slices"
	"time"
)

// fsync returns the median time, in µs, that making 4 KiB at the end of a file durable
// takes in the directory of this run's databases.
func (b *bench) fsync() (_ samples, err error) {
	const times = 200
	f, err := os.Create(b.path("fsync"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 4096)
	var took []time.Duration
	for range times {
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return samples{micros(took[times/2])}, nil
}
