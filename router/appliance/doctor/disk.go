package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"signalbox/broker/storage"
)

// The bounds of a disk.
const (
	lowSpace  = 1 << 30                // bytes free below which there is a warning
	slowFlush = 100 * time.Millisecond // of a block, above which there is a warning
	flushes   = 5
)

// Disk checks the free space of the disk of a directory, and the time of an fsync. Fewer free
// bytes than least are an error.
func Disk(dir string, least int64) []Finding {
	return []Finding{space(dir, storage.DiskFree(dir), least), flushTime(dir)}
}

func space(dir string, free, least int64) Finding {
	const remedy = "free some space on the disk, or move the data directory to a larger one"
	text := fmt.Sprintf("%s are free on the disk of %s", Bytes(free), dir)
	switch {
	case free < 0:
		return Good("disk", "", "the free space cannot be determined on this system")
	case free < least:
		return Bad("disk", "", fmt.Sprintf("%s, fewer than the %s that are needed", text, Bytes(least)), remedy)
	case free < lowSpace:
		return Warn("disk", "", text, remedy)
	}
	return Good("disk", "", "%s", text)
}

// flushTime measures how long it takes until a block is on the disk.
func flushTime(dir string) Finding {
	took, err := measureFlush(dir)
	if err != nil {
		return Bad("disk", "fsync", "nothing can be written to "+dir+": "+err.Error(), "make the directory writable for this user, and free some space")
	}
	text := fmt.Sprintf("an fsync takes %s", took.Round(10*time.Microsecond))
	if took > slowFlush {
		return Warn("disk", "fsync", text+", which each acknowledged message and each change waits for", "use a faster disk, or set broker.durability and streams.durability to process")
	}
	return Good("disk", "fsync", "%s", text)
}

// measureFlush returns the median of the times of some writes.
func measureFlush(dir string) (median time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".fsync-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var times []time.Duration
	for range flushes {
		began := time.Now()
		_, err := f.Write(make([]byte, 4096))
		if err := errors.Join(err, f.Sync()); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// Bytes returns a number of bytes as people read it.
func Bytes(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n), "KMGTPE"
	i := -1
	for value >= unit {
		value, i = value/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", value, names[i])
}
