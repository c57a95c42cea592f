package topics

import (
	"sort"
	"strings"

	"github.com/tidwall/btree"
)

// RetainedMessage is a retained message and its topic.
type RetainedMessage[M any] struct {
	Topic   string
	Message M
}

// Page returns a page of the messages that match a filter ("" for all), ordered by topic, and
// their total number. A negative count means no limit. Without "+" in the filter, the cost
// does not depend on the offset.
func (r *Retained[M]) Page(filter string, offset, count int) (total int, part []RetainedMessage[M]) {
	p := pager[M]{tree: r.snapshot(), skip: max(offset, 0), count: count}
	if ranges, ok := rangesOf(filter); ok {
		for _, g := range ranges {
			p.addRange(g)
		}
	} else {
		matchTree(p.tree, filter, p.add)
	}
	return p.total, p.part
}

// pager collects the messages of a page.
type pager[M any] struct {
	tree  *btree.Map[string, M]
	skip  int // messages left to skip
	count int // negative for no limit
	total int
	part  []RetainedMessage[M]
}

func (p *pager[M]) full() bool { return p.count >= 0 && len(p.part) >= p.count }

// add adds the next message.
func (p *pager[M]) add(topic string, m M) bool {
	p.total++
	switch {
	case p.skip > 0:
		p.skip--
	case !p.full():
		p.part = append(p.part, RetainedMessage[M]{topic, m})
	}
	return true
}

// addRange adds the messages of a range without visiting those outside the page.
func (p *pager[M]) addRange(g topicRange) {
	low, high := rank(p.tree, g.from), p.tree.Len()
	if g.to != "" {
		high = rank(p.tree, g.to)
	}
	p.total += high - low
	first := min(low+p.skip, high)
	p.skip -= first - low
	p.addPage(first, high)
}

// addPage adds messages between two ranks until the page is full.
func (p *pager[M]) addPage(first, high int) {
	topic, _, _ := p.tree.GetAt(first)
	p.tree.Ascend(topic, func(topic string, m M) bool {
		if first == high || p.full() {
			return false
		}
		p.part = append(p.part, RetainedMessage[M]{topic, m})
		first++
		return true
	})
}

// rank returns the number of topics less than topic.
func rank[M any](tree *btree.Map[string, M], topic string) int {
	return sort.Search(tree.Len(), func(i int) bool {
		other, _, _ := tree.GetAt(i)
		return other >= topic
	})
}

// topicRange is a range of topics that excludes to; "" is no upper bound.
type topicRange struct{ from, to string }

// rangesOf returns the topics that match a filter as ranges, in order. This is not possible
// for filters with "+".
func rangesOf(filter string) (ranges []topicRange, ok bool) {
	parent, multiLevel := strings.CutSuffix(filter, "/#")
	switch {
	case filter == "":
		return []topicRange{{}}, true
	case strings.Contains(filter, "+"):
		return nil, false
	case filter == "#":
		return []topicRange{{"", "$"}, {afterDollar, ""}}, true
	case multiLevel:
		return []topicRange{singleTopic(parent), {parent + "/", parent + afterSlash}}, true
	}
	return []topicRange{singleTopic(filter)}, true
}

// singleTopic is the range of one topic: topics do not contain NUL [MQTT-1.5.4-2].
func singleTopic(topic string) topicRange { return topicRange{topic, topic + "\x00"} }
