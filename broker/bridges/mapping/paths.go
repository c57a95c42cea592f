package mapping

import "github.com/tidwall/gjson"

// paths evaluates several paths of a payload in one scan, in which common prefixes are scanned
// once. It is a tree of their steps, and immutable once it is built.
type paths struct {
	root  pathNode
	count int
}

// pathNode is a node of the tree: a step with the steps that follow it.
type pathNode struct {
	step
	id       int
	children []*pathNode
}

// add adds a path and returns its id.
func (p *paths) add(path []step) (id int) {
	at := &p.root
	for _, s := range path {
		at = at.child(s, &p.count)
	}
	return at.id
}

func (p *pathNode) child(s step, count *int) *pathNode {
	for _, b := range p.children {
		if b.step == s {
			return b
		}
	}
	*count++
	b := &pathNode{step: s, id: *count}
	p.children = append(p.children, b)
	return b
}

// find returns the values of all paths in a valid document, by their ids.
func (p *paths) find(doc gjson.Result) []gjson.Result {
	found := make([]gjson.Result, p.count+1)
	found[0] = doc
	p.root.evaluate(found)
	return found
}

// evaluate evaluates the nodes below p.
func (p *pathNode) evaluate(found []gjson.Result) {
	doc := found[p.id]
	if len(p.children) == 0 || !doc.IsObject() && !doc.IsArray() {
		return
	}
	if doc.IsObject() {
		doc.ForEach(func(name, value gjson.Result) bool {
			for _, b := range p.children {
				if !b.isIndex && b.name == name.Str {
					found[b.id] = value
				}
			}
			return true
		})
	}
	for _, b := range p.children {
		if b.isIndex {
			found[b.id] = b.find(doc)
		}
		b.evaluate(found)
	}
}
