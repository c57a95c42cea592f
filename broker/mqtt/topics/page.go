package topics

import (
	"sort"
	"strings"

	"github.com/tidwall/btree"
)

// Kept is a retained message with its topic.
type Kept[M any] struct {
	Topic   string
	Message M
}

// Page gives a part of the messages whose topic a filter matches, "" for all, in
// order of the topics, and the number of all of these. A negative count means
// all from offset on. The cost does not depend on the offset where the filter
// has no "+".
func (r *Retained[M]) Page(filter string, offset, count int) (total int, part []Kept[M]) {
	p := pager[M]{tree: r.snapshot(), skip: max(offset, 0), count: count}
	if ranges, ok := rangesOf(filter); ok {
		for _, g := range ranges {
			p.addRange(g)
		}
	} else {
		walk(p.tree, filter, p.add)
	}
	return p.total, p.part
}

// pager takes the messages that match, in order, and keeps those of the page.
type pager[M any] struct {
	tree  *btree.Map[string, M]
	skip  int // not yet skipped
	count int // negative for all
	total int
	part  []Kept[M]
}

func (p *pager[M]) full() bool { return p.count >= 0 && len(p.part) >= p.count }

// add takes the next message.
func (p *pager[M]) add(topic string, m M) bool {
	p.total++
	switch {
	case p.skip > 0:
		p.skip--
	case !p.full():
		p.part = append(p.part, Kept[M]{topic, m})
	}
	return true
}

// addRange takes the messages in a range, without a look at those before and
// after the page.
func (p *pager[M]) addRange(g between) {
	low, high := rank(p.tree, g.from), p.tree.Len()
	if g.to != "" {
		high = rank(p.tree, g.to)
	}
	p.total += high - low
	first := min(low+p.skip, high)
	p.skip -= first - low
	p.read(first, high)
}

// read takes the messages from a place to another until the page is full.
func (p *pager[M]) read(first, high int) {
	topic, _, _ := p.tree.GetAt(first)
	p.tree.Ascend(topic, func(topic string, m M) bool {
		if first == high || p.full() {
			return false
		}
		p.part = append(p.part, Kept[M]{topic, m})
		first++
		return true
	})
}

// rank is the number of topics below one.
func rank[M any](tree *btree.Map[string, M], topic string) int {
	return sort.Search(tree.Len(), func(i int) bool {
		other, _, _ := tree.GetAt(i)
		return other >= topic
	})
}

// between is a range of topics, the upper one left out, "" for no upper one.
type between struct{ from, to string }

// rangesOf gives the topics that a filter matches as ranges, in order, where
// that is possible: where it has no "+".
func rangesOf(filter string) (ranges []between, ok bool) {
	parent, deep := strings.CutSuffix(filter, "/#")
	switch {
	case filter == "":
		return []between{{}}, true
	case strings.Contains(filter, "+"):
		return nil, false
	case filter == "#":
		return []between{{"", "$"}, {afterDollar, ""}}, true
	case deep:
		return []between{one(parent), {parent + "/", parent + afterSlash}}, true
	}
	return []between{one(filter)}, true
}

// one is the range of a single topic: none lies between it and itself with a
// NUL, which no topic holds [MQTT-1.5.4-2].
func one(topic string) between { return between{topic, topic + "\x00"} }
