package query

// node is a place in a payload: the end of a wanted path, or on the way to it.
type node struct {
	slot     int   // where the value goes, -1 if only something inside is wanted
	below    []int // the slots of all that is inside
	members  []child
	byName   map[string]*node // the members, once they are many
	elements map[int]*node    // those members whose names address array elements
}

// child is a member of a node.
type child struct {
	name string
	node *node
}

// many is from how many members on a map finds one quicker than a look at each.
const many = 8

// want adds a path and gives the slot of its value: next, unless the path has
// one.
func (n *node) want(path []string, next int) (slot int) {
	if len(path) == 0 {
		if n.slot < 0 {
			n.slot = next
		}
		return n.slot
	}
	inner := n.member([]byte(path[0]))
	if inner == nil {
		inner = n.adopt(path[0])
	}
	if slot = inner.want(path[1:], next); slot == next {
		n.below = append(n.below, slot)
	}
	return slot
}

func (n *node) adopt(name string) *node {
	inner := &node{slot: -1}
	n.members = append(n.members, child{name, inner})
	if p := position(name); p >= 0 {
		if n.elements == nil {
			n.elements = make(map[int]*node)
		}
		n.elements[p] = inner
	}
	if len(n.members) >= many {
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

// member finds what is wanted of an object's member.
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

// element finds what is wanted of an array's element; n may be nil.
func (n *node) element(position int) *node {
	if n == nil || n.elements == nil {
		return nil
	}
	return n.elements[position]
}
