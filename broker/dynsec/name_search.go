package dynsec

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// searchedAtOnce is how many bytes of names are searched together.
const searchedAtOnce = 16 << 10

// nameSearch finds the names that contain a text, whatever their case. It joins names before it
// searches, in a fraction of the time of a search in each.
type nameSearch struct {
	part   []byte   // in lower case, without a line end: no name has one
	joined []byte   // the names that wait, each with a line end
	names  []string // the same
	hits   []string
}

// searchedByOne is how many names one processor searches before another one helps.
const searchedByOne = 100_000

// containing returns the names of a tree that contain a text in lower case, in order. All processors
// search many names, each a range of them.
func containing[V any](ctx context.Context, m *btree.Map[string, V], part string) ([]string, error) {
	ranges := min(runtime.GOMAXPROCS(0), 1+m.Len()/searchedByOne)
	found := make([][]string, ranges)
	var searching sync.WaitGroup
	for i := range ranges {
		from, to := m.Len()*i/ranges, m.Len()*(i+1)/ranges
		searching.Go(func() { found[i] = containingWithin(ctx, m, part, from, to-from) })
	}
	searching.Wait()
	return slices.Concat(found...), ctx.Err()
}

// containingWithin is containing for a number of names from the one at offset on.
func containingWithin[V any](ctx context.Context, m *btree.Map[string, V], part string, offset, count int) []string {
	s := &nameSearch{part: []byte(part)}
	if first, _, ok := m.GetAt(offset); ok {
		m.Ascend(first, func(name string, _ V) bool {
			if count == 0 {
				return false
			}
			count--
			s.joined = append(append(s.joined, name...), '\n')
			if s.names = append(s.names, name); len(s.joined) < searchedAtOnce {
				return true
			}
			s.search()
			return ctx.Err() == nil
		})
	}
	s.search()
	return s.hits
}

// search searches the names that wait.
func (s *nameSearch) search() {
	if lowerASCII(s.joined) {
		s.find()
	} else {
		for _, name := range s.names {
			if strings.Contains(strings.ToLower(name), string(s.part)) {
				s.hits = append(s.hits, name)
			}
		}
	}
	s.joined, s.names = s.joined[:0], s.names[:0]
}

func (s *nameSearch) find() {
	n, from := 0, 0 // a name, and where it begins
	for from < len(s.joined) {
		i := bytes.Index(s.joined[from:], s.part)
		if i < 0 {
			return
		}
		for i += from; from+len(s.names[n]) < i; n++ {
			from += len(s.names[n]) + 1
		}
		s.hits = append(s.hits, s.names[n])
		from += len(s.names[n]) + 1
		n++
	}
}

// lowerASCII converts ASCII text to lower case, eight bytes at a time, and reports whether it is such.
func lowerASCII(b []byte) bool {
	const each = 0x0101010101010101
	for ; len(b) >= 8; b = b[8:] {
		v := binary.LittleEndian.Uint64(b)
		if v&(each*0x80) != 0 {
			return false
		}
		// The highest bit of a byte is set in the first sum from 'A' on, in the second after 'Z'.
		if upper := (v + each*(0x80-'A')) &^ (v + each*(0x7f-'Z')) & (each * 0x80); upper != 0 {
			binary.LittleEndian.PutUint64(b, v|upper>>2)
		}
	}
	for i, c := range b {
		if c >= 0x80 {
			return false
		}
		b[i] = lowerByte(c)
	}
	return true
}
