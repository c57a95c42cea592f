package query

// maxNesting is how deeply arrays and objects of a payload may be nested.
const maxNesting = 128

// span is the position of a value in the payload.
type span struct{ from, to int }

// found reports whether there is a value. A value is never empty.
func (p span) found() bool { return p.to > 0 }

// of returns the text of the value.
func (p span) of(payload []byte) []byte { return payload[p.from:p.to] }

// scanner reads a JSON text (RFC 8259) once from front to end, validates it,
// and records the spans of the wanted values. A bool result means that the text
// is valid so far, unless the comment of the method states something else.
type scanner struct {
	text  []byte
	pos   int
	depth int
	spans []span // by slot
	name  []byte // buffer for a name without its escapes
}

func (s *scanner) scan(text []byte, wanted *node) bool {
	s.text, s.pos, s.depth = text, 0, 0
	clear(s.spans)
	s.space()
	ok := s.value(wanted)
	s.space()
	ok = ok && s.pos == len(text)
	s.text = nil // the payload belongs to the caller
	return ok
}

// value scans a value. The node is nil if nothing of it is wanted.
func (s *scanner) value(n *node) bool {
	from := s.pos
	if !s.anyValue(n) {
		return false
	}
	if n != nil && n.slot >= 0 {
		s.spans[n.slot] = span{from, s.pos}
	}
	return true
}

func (s *scanner) anyValue(n *node) bool {
	switch s.peek() {
	case '{':
		return s.object(n)
	case '[':
		return s.array(n)
	case '"':
		_, ok := s.quoted()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) object(n *node) bool {
	if !s.enter() {
		return false
	}
	for more := s.peek() != '}'; more; more = s.take(',') {
		s.space()
		inner, ok := s.key(n)
		if !ok || !s.value(inner) {
			return false
		}
		s.space()
	}
	s.depth--
	return s.take('}')
}

func (s *scanner) array(n *node) bool {
	if !s.enter() {
		return false
	}
	i := 0
	for more := s.peek() != ']'; more; more = s.take(',') {
		s.space()
		if !s.value(n.element(i)) {
			return false
		}
		s.space()
		i++
	}
	s.depth--
	return s.take(']')
}

// enter moves into an object or array, up to its first member or element.
func (s *scanner) enter() bool {
	s.pos++
	s.depth++
	s.space()
	return s.depth <= maxNesting
}

// key scans the name of a member up to its value, and returns its node.
func (s *scanner) key(n *node) (inner *node, ok bool) {
	from := s.pos
	escaped, ok := s.quoted()
	if !ok {
		return nil, false
	}
	if n != nil && len(n.members) > 0 {
		inner = n.member(s.plain(s.text[from:s.pos], escaped))
		s.clearDescendants(inner)
	}
	s.space()
	if !s.take(':') {
		return nil, false
	}
	s.space()
	return inner, true
}

// plain returns the name of a member without quotes and escapes.
func (s *scanner) plain(quoted []byte, escaped bool) []byte {
	if !escaped {
		return quoted[1 : len(quoted)-1]
	}
	s.name = unescape(s.name[:0], quoted)
	return s.name
}

// clearDescendants clears the slots below a member that is repeated: the last
// member of a name counts, and it may lack what an earlier one had.
func (s *scanner) clearDescendants(n *node) {
	if n == nil {
		return
	}
	for _, slot := range n.descendants {
		s.spans[slot] = span{}
	}
}
