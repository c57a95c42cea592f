package topics

import "strings"

// trie keeps a value for each filter that holds a wildcard. All edges between
// its nodes are in one table, so that a node costs little and finds a child
// among a hundred thousand as quickly as among two.
type trie[V any] struct {
	top   node[V]
	edges table[edge[V], *node[V]]
}

// node is reached by the levels of a filter. It is there only as long as a
// filter ends at or below it.
type node[V any] struct {
	plus     *node[V] // child by "+"
	literals int      // number of children by other levels
	here     *V       // of the filter that ends here
	rest     *V       // of the one that goes on with "#" only
}

// edge is the way from a node to its child by a literal level.
type edge[V any] struct {
	from  *node[V]
	level string
}

// get gives the value of a filter, nil if it has none.
func (t *trie[V]) get(filter string) *V {
	n := &t.top
	for level := range strings.SplitSeq(filter, "/") {
		if level == "#" {
			return n.rest
		}
		if n = t.child(n, level); n == nil {
			return nil
		}
	}
	return n.here
}

// put sets the value of a filter.
func (t *trie[V]) put(filter string, v *V) {
	n := &t.top
	for level := range strings.SplitSeq(filter, "/") {
		if level == "#" {
			n.rest = v
			return
		}
		n = t.grown(n, level)
	}
	n.here = v
}

// remove forgets a filter, with the nodes that no other one needs.
func (t *trie[V]) remove(filter string) { t.drop(&t.top, filter, true) }

// drop forgets the filter that goes on from a node with the levels in rest, if
// there are more of them, and tells whether the node leads nowhere without it.
func (t *trie[V]) drop(n *node[V], rest string, more bool) (bare bool) {
	level, rest, deeper := strings.Cut(rest, "/")
	if !more {
		n.here = nil
	} else if level == "#" {
		n.rest = nil
	} else if c := t.child(n, level); c != nil && t.drop(c, rest, deeper) {
		t.detach(n, level)
	}
	return n.here == nil && n.rest == nil && n.plus == nil && n.literals == 0
}

func (t *trie[V]) detach(n *node[V], level string) {
	if level == "+" {
		n.plus = nil
		return
	}
	t.edges.remove(edge[V]{n, level})
	n.literals--
}

func (t *trie[V]) child(n *node[V], level string) *node[V] {
	if level == "+" {
		return n.plus
	}
	return t.literal(n, level)
}

func (t *trie[V]) literal(n *node[V], level string) *node[V] {
	if n.literals == 0 {
		return nil
	}
	return t.edges.get(edge[V]{n, level})
}

// grown gives the child by a level, made if need be.
func (t *trie[V]) grown(n *node[V], level string) *node[V] {
	if c := t.child(n, level); c != nil {
		return c
	}
	if level == "+" {
		n.plus = new(node[V])
		return n.plus
	}
	level = strings.Clone(level) // the node may outlive the filter it is cut from
	c := new(node[V])
	t.edges.put(edge[V]{n, level}, c)
	n.literals++
	return c
}

// match appends the values of all filters that match a topic to found.
func (t *trie[V]) match(topic string, found []*V) []*V {
	if !internal(topic) {
		return t.collect(&t.top, topic, true, found)
	}
	level, rest, more := strings.Cut(topic, "/")
	if n := t.literal(&t.top, level); n != nil {
		return t.collect(n, rest, more, found)
	}
	return found
}

// collect appends the values of the filters that go on from a node and match
// the levels in rest, if there are more of them. A "#" stands for none as well
// (MQTT 5, 4.7.1.2).
func (t *trie[V]) collect(n *node[V], rest string, more bool, found []*V) []*V {
	if n.rest != nil {
		found = append(found, n.rest)
	}
	if !more {
		if n.here != nil {
			found = append(found, n.here)
		}
		return found
	}
	level, rest, more := strings.Cut(rest, "/")
	if c := t.literal(n, level); c != nil {
		found = t.collect(c, rest, more, found)
	}
	if n.plus != nil {
		found = t.collect(n.plus, rest, more, found)
	}
	return found
}
