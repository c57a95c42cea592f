package query

// node is a place in a payload that a wanted path leads to or through.
type node struct {
	slot        int   // of the value, -1 if only descendants are wanted
	descendants []int // their slots
	members     []child
	byName      map[string]*node // the members, from indexThreshold on
	elements    map[int]*node    // the members whose names address array elements
}

// child is a member of a node.
type child struct {
	name string
	node *node
}

// indexThreshold is the number of members from which a map is faster than a
// linear search.
const indexThreshold = 8

// add adds a path and returns the slot of its value: the one that it already
// has, or else next.
func (n *node) add(path []string, next int) (slot int) {
	if len(path) == 0 {
		if n.slot < 0 {
			n.slot = next
		}
		return n.slot
	}
	inner := n.member([]byte(path[0]))
	if inner == nil {
		inner = n.addMember(path[0])
	}
	if slot = inner.add(path[1:], next); slot == next {
		n.descendants = append(n.descendants, slot)
	}
	return slot
}

func (n *node) addMember(name string) *node {
	inner := &node{slot: -1}
	n.members = append(n.members, child{name, inner})
	if p := position(name); p >= 0 {
		if n.elements == nil {
			n.elements = make(map[int]*node)
		}
		n.elements[p] = inner
	}
	if len(n.members) >= indexThreshold {
		n.index()
	}
	return inner
}

func (n *node) index() {
	n.byName = make(map[string]*node, len(n.members))
	for _, m := range n.members {
		n.byName[m.name] = m.node
	}
}

// member returns the node of an object's member, nil if nothing of it is
// wanted.
func (n *node) member(name []byte) *node {
	if n.byName != nil {
		return n.byName[string(name)]
	}
	for _, m := range n.members {
		if m.name == string(name) {
			return m.node
		}
	}
	return nil
}

// element returns the node of an array's element, nil if nothing of it is
// wanted. The receiver n may be nil.
func (n *node) element(position int) *node {
	if n == nil || n.elements == nil {
		return nil
	}
	return n.elements[position]
}
