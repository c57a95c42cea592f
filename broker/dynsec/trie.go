package dynsec

import "strings"

// branch is a level in the tree of the filters that contain a wildcard or a
// placeholder. A search visits a branch at most once.
type branch struct {
	best   verdict            // lowest verdict here and under all branches below
	here   verdict            // of the filter that ends with this level
	below  verdict            // of the filter that continues with # after this level
	levels map[string]*branch // by a literal level
	plus   *branch            // by +
	client *branch            // by %c
	user   *branch            // by %u
}

func newBranch() *branch { return &branch{best: undecided, here: undecided, below: undecided} }

// add adds a filter.
func (b *branch) add(filter string, v verdict) {
	b.best = min(b.best, v)
	for level := range strings.SplitSeq(filter, "/") {
		if level == "#" {
			b.below = min(b.below, v)
			return
		}
		b = b.next(level)
		b.best = min(b.best, v)
	}
	b.here = min(b.here, v)
}

// next returns the branch for a level, and creates it if necessary.
func (b *branch) next(level string) *branch {
	switch level {
	case "+":
		return made(&b.plus)
	case "%c":
		return made(&b.client)
	case "%u":
		return made(&b.user)
	}
	if b.levels == nil {
		b.levels = make(map[string]*branch)
	}
	n := b.levels[level]
	if n == nil {
		n = newBranch()
		b.levels[level] = n
	}
	return n
}

func made(b **branch) *branch {
	if *b == nil {
		*b = newBranch()
	}
	return *b
}

// search searches from the top: no wildcard and no placeholder in the first level matches
// what begins with $.
func (b *branch) search(q *query, best verdict) verdict {
	if !isDollarTopic(q.topic) {
		return b.find(q, q.topic, true, false, best)
	}
	level, rest, more := strings.Cut(q.topic, "/")
	if n := b.levels[level]; n != nil {
		return n.find(q, rest, more, false, best)
	}
	return best
}

// find returns the lowest verdict below best of the filters that continue from here and
// match the levels in rest, if there are more of them. With denyOnly the path contains
// a placeholder with an unsafe value: on it only denials count.
func (b *branch) find(q *query, rest string, more, denyOnly bool, best verdict) verdict {
	if b.best >= best {
		return best
	}
	best = lowest(best, b.below, denyOnly)
	if !more {
		return lowest(best, b.here, denyOnly)
	}
	level, rest, more := strings.Cut(rest, "/")
	if level == "#" {
		return best
	}
	if n := b.levels[level]; n != nil {
		best = n.find(q, rest, more, denyOnly, best)
	}
	if b.plus != nil {
		best = b.plus.find(q, rest, more, denyOnly, best)
	}
	if b.client != nil {
		best = b.client.matchPlaceholder(q, q.clientID, level, rest, more, denyOnly, best)
	}
	if b.user != nil {
		best = b.user.matchPlaceholder(q, q.username, level, rest, more, denyOnly, best)
	}
	return best
}

// matchPlaceholder continues at the branch of a placeholder if its value is the level. A value
// that cannot be one level, because it contains a separator or a wildcard, never allows
// anything; so that it does not evade a denial either, it then counts as any level.
func (b *branch) matchPlaceholder(q *query, value, level, rest string, more, denyOnly bool, best verdict) verdict {
	if strings.ContainsAny(value, "/+#") {
		return b.find(q, rest, more, true, best)
	}
	if value == "" || value != level {
		return best
	}
	return b.find(q, rest, more, denyOnly, best)
}

func lowest(best, v verdict, denyOnly bool) verdict {
	if v >= best || denyOnly && v.allow() {
		return best
	}
	return v
}
