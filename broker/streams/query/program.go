package query

import "slices"

// program writes an output object: fixed text with values in between.
type program struct {
	pieces []piece
	tail   []byte
}

// piece is a value and the fixed text before it.
type piece struct {
	text  []byte
	value operand
}

// hasOutput reports whether the query writes an output object at all.
func (p *program) hasOutput() bool { return len(p.pieces) > 0 }

func (p *program) run(dst []byte, q *Query, payload []byte, s *State) []byte {
	for i := range p.pieces {
		dst = append(dst, p.pieces[i].text...)
		dst = q.append(dst, payload, s, p.pieces[i].value)
	}
	return append(dst, p.tail...)
}

// branch is a member of the output object while the program is compiled: an
// object with members, or a value.
type branch struct {
	name    string
	value   operand
	members []*branch // of an object, in the order of their first targets; nil for a value
}

// put adds a value at a path, and reports whether the path was free: not used,
// and not within or around another value.
func (b *branch) put(path []string, value operand) bool {
	i := slices.IndexFunc(b.members, func(m *branch) bool { return m.name == path[0] })
	if i < 0 {
		b.addMember(path, value)
		return true
	}
	if len(path) == 1 || b.members[i].members == nil {
		return false
	}
	return b.members[i].put(path[1:], value)
}

// addMember adds a new member with the objects on the path to the value.
func (b *branch) addMember(path []string, value operand) {
	m := &branch{name: path[0], value: value}
	b.members = append(b.members, m)
	if len(path) > 1 {
		m.addMember(path[1:], value)
	}
}

// write appends the code for the branch to the program.
func (b *branch) write(p *program) {
	if b.members == nil {
		p.pieces = append(p.pieces, piece{slices.Clip(p.tail), b.value})
		p.tail = nil
		return
	}
	p.tail = append(p.tail, '{')
	for i, m := range b.members {
		if i > 0 {
			p.tail = append(p.tail, ',')
		}
		p.tail = append(appendQuoted(p.tail, m.name), ':')
		m.write(p)
	}
	p.tail = append(p.tail, '}')
}
