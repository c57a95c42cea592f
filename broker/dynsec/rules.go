package dynsec

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"signalbox/broker"
)

// verdict is the effect and precedence of one ACL: its position in the order of
// evaluation within its role and type, doubled, plus one if it allows. Of several the
// lowest decides.
type verdict uint32

// undecided is the verdict without a matching ACL.
const undecided verdict = math.MaxUint32

func newVerdict(place int, allow bool) verdict {
	v := verdict(place) << 1
	if allow {
		v |= 1
	}
	return v
}

func (v verdict) allow() bool { return v&1 == 1 }

func (v verdict) place() int { return int(v >> 1) }

// query is the input of one decision.
type query struct {
	username, clientID string // "" if absent
	topic              string
}

// rules are one role's compiled ACLs. They are immutable and shared by all holders of
// the role.
type rules struct {
	noWildcards  bool // deny every subscription that contains a wildcard
	send         table
	receive      table
	subscribe    table
	unsubscribe  table
	subLiteral   map[string]verdict
	unsubLiteral map[string]verdict
}

// compileRules compiles a role. Of ACLs of the same type the one with the higher
// priority is evaluated first, of those with the same priority the one that comes
// first; of two with the same type and topic only that one counts.
func compileRules(r broker.Role) *rules {
	c := &rules{noWildcards: !r.AllowWildcardSubs}
	for place, a := range inOrder(r.ACLs) {
		c.add(a.ACLType, a.Topic, newVerdict(place, a.Allow))
	}
	return c
}

// inOrder returns a role's ACLs in order of their positions.
func inOrder(acls []broker.ACL) []broker.ACL {
	acls = slices.Clone(acls)
	slices.SortStableFunc(acls, func(a, b broker.ACL) int { return cmp.Compare(b.Priority, a.Priority) })
	return acls
}

func (c *rules) add(t broker.ACLType, topic string, v verdict) {
	switch t {
	case broker.PublishClientSend:
		c.send.add(topic, v)
	case broker.PublishClientReceive:
		c.receive.add(topic, v)
	case broker.SubscribeLiteral:
		keepLowest(&c.subLiteral, topic, v)
	case broker.SubscribePattern:
		c.subscribe.add(topic, v)
	case broker.UnsubscribeLiteral:
		keepLowest(&c.unsubLiteral, topic, v)
	case broker.UnsubscribePattern:
		c.unsubscribe.add(topic, v)
	}
}

// keepLowest stores a verdict under the key unless a lower one is there.
func keepLowest(m *map[string]verdict, key string, v verdict) {
	if *m == nil {
		*m = make(map[string]verdict)
	}
	if old, ok := (*m)[key]; !ok || v < old {
		(*m)[key] = v
	}
}

// decide returns the verdict of the role's first ACL that matches, or undecided.
func (c *rules) decide(ev Event, q *query) verdict {
	switch ev {
	case PublishSend:
		return c.send.find(q)
	case PublishReceive:
		return c.receive.find(q)
	case Subscribe:
		if c.noWildcards && hasWildcard(q.topic) {
			return newVerdict(0, false)
		}
		return literalFirst(c.subLiteral, &c.subscribe, q)
	}
	return literalFirst(c.unsubLiteral, &c.unsubscribe, q)
}

// literalFirst checks the literal ACLs and, only if none of them is for this very
// filter, the patterns.
func literalFirst(literal map[string]verdict, t *table, q *query) verdict {
	if len(literal) > 0 {
		if v, ok := literal[q.topic]; ok {
			return v
		}
	}
	return t.find(q)
}

// table contains the ACLs of one type whose topics are filters. Those without wildcard
// and placeholder, usually the most, are found by one look-up; the others are in a
// tree.
type table struct {
	plain  map[string]verdict
	tree   *branch
	flawed []flawed
}

// add adds an ACL.
func (t *table) add(topic string, v verdict) {
	at := misplacedWildcard(topic)
	switch {
	case at >= 0:
		t.flawed = append(t.flawed, newFlawed(topic, at, v))
	case hasWildcard(topic) || hasPlaceholder(topic):
		if t.tree == nil {
			t.tree = newBranch()
		}
		t.tree.add(topic, v)
	default:
		keepLowest(&t.plain, topic, v)
	}
}

// find returns the lowest verdict of the ACLs that match.
func (t *table) find(q *query) verdict {
	best := undecided
	if len(t.plain) > 0 {
		if v, ok := t.plain[q.topic]; ok {
			best = v
		}
	}
	if t.tree != nil {
		best = t.tree.search(q, best)
	}
	for i := range t.flawed {
		if f := &t.flawed[i]; f.v < best && f.reached(q.topic) {
			best = f.v
		}
	}
	return best
}

// hasPlaceholder reports whether a level of the filter is %c or %u.
func hasPlaceholder(filter string) bool {
	for level := range strings.SplitSeq(filter, "/") {
		if isPlaceholder(level) {
			return true
		}
	}
	return false
}

func isPlaceholder(level string) bool { return level == "%c" || level == "%u" }
