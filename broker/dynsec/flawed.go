package dynsec

import "strings"

// flawed is an ACL whose topic is not a filter, because a wildcard is misplaced. Files
// and old brokers contain such ACLs. The intention cannot be known, so it denies, even
// if it is an allowing one: with # before the end every topic, otherwise each that
// agrees with it up to the flaw.
type flawed struct {
	dollar bool     // it begins with $ and applies only to topics that do so too
	levels []string // valid ones before the flaw
	stub   string   // of the flawed level, before the flaw
	v      verdict
}

// newFlawed parses a topic that has its first flaw at a position.
func newFlawed(topic string, at int, v verdict) flawed {
	f := flawed{dollar: isDollarTopic(topic), v: v &^ 1}
	if i := strings.IndexByte(topic, '#'); i >= 0 && i+1 < len(topic) {
		return f
	}
	f.levels = strings.Split(topic[:at], "/")
	last := len(f.levels) - 1
	f.levels, f.stub = f.levels[:last], f.levels[last]
	return f
}

// reached reports whether the topic, or filter of a subscription, agrees with the ACL
// up to the flaw.
func (f *flawed) reached(topic string) bool {
	if f.dollar != isDollarTopic(topic) {
		return false
	}
	for _, want := range f.levels {
		level, rest, more := strings.Cut(topic, "/")
		if !more || want != level && want != "+" && !isPlaceholder(want) {
			return false
		}
		topic = rest
	}
	return strings.HasPrefix(topic, f.stub)
}
