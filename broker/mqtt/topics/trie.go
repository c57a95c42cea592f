package topics

import "strings"

// trie holds a value for each filter with a wildcard. All edges are in one table, so that
// nodes are small and finding a child takes constant time.
type trie[V any] struct {
	root  node[V]
	edges table[edge[V], *node[V]]
}

// node is reached by the levels of a filter. It exists as long as a filter ends at or below
// it.
type node[V any] struct {
	plus     *node[V] // child by "+"
	literals int      // number of children by other levels
	exact    *V       // value of the filter that ends here
	multi    *V       // value of the filter that ends with "#" here
}

// edge leads from a node to its child by a literal level.
type edge[V any] struct {
	from  *node[V]
	level string
}

// get returns the value of a filter, or nil.
func (t *trie[V]) get(filter string) *V {
	n := &t.root
	for level := range strings.SplitSeq(filter, "/") {
		if level == "#" {
			return n.multi
		}
		if n = t.child(n, level); n == nil {
			return nil
		}
	}
	return n.exact
}

// put sets the value of a filter.
func (t *trie[V]) put(filter string, v *V) {
	n := &t.root
	for level := range strings.SplitSeq(filter, "/") {
		if level == "#" {
			n.multi = v
			return
		}
		n = t.childOrNew(n, level)
	}
	n.exact = v
}

// remove deletes a filter, and the nodes that no other filter needs.
func (t *trie[V]) remove(filter string) { t.removeFrom(&t.root, filter, true) }

// removeFrom deletes the filter that continues from a node with the levels in rest, if there
// are more. It reports whether the node is empty.
func (t *trie[V]) removeFrom(n *node[V], rest string, more bool) (empty bool) {
	level, rest, deeper := strings.Cut(rest, "/")
	if !more {
		n.exact = nil
	} else if level == "#" {
		n.multi = nil
	} else if c := t.child(n, level); c != nil && t.removeFrom(c, rest, deeper) {
		t.detach(n, level)
	}
	return n.exact == nil && n.multi == nil && n.plus == nil && n.literals == 0
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

// childOrNew returns the child by a level, created if necessary.
func (t *trie[V]) childOrNew(n *node[V], level string) *node[V] {
	if c := t.child(n, level); c != nil {
		return c
	}
	if level == "+" {
		n.plus = new(node[V])
		return n.plus
	}
	level = strings.Clone(level) // the node may outlive the filter that level is part of
	c := new(node[V])
	t.edges.put(edge[V]{n, level}, c)
	n.literals++
	return c
}

// match appends the values of all filters that match a topic to found.
func (t *trie[V]) match(topic string, found []*V) []*V {
	if !isDollarTopic(topic) {
		return t.collect(&t.root, topic, true, found)
	}
	level, rest, more := strings.Cut(topic, "/")
	if n := t.literal(&t.root, level); n != nil {
		return t.collect(n, rest, more, found)
	}
	return found
}

// collect appends the values of the filters that continue from a node and match the levels in
// rest, if there are more. "#" matches the parent level as well (MQTT 5, 4.7.1.2).
func (t *trie[V]) collect(n *node[V], rest string, more bool, found []*V) []*V {
	if n.multi != nil {
		found = append(found, n.multi)
	}
	if !more {
		if n.exact != nil {
			found = append(found, n.exact)
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
