package dynsec

import "strings"

// flawed is an ACL whose topic is no filter, because a wildcard stands where
// none may. Files and old brokers hold such ACLs. What was meant cannot be
// known, so that it denies, whatever it says: with # before the end every topic,
// otherwise each that agrees with it as far as the flaw.
type flawed struct {
	dollar bool     // it begins with $ and speaks only of what does so too
	levels []string // sound ones before the flaw
	stub   string   // of the flawed level, before the flaw
	v      verdict
}

// newFlawed takes apart a topic that has its first flaw at a position.
func newFlawed(topic string, at int, v verdict) flawed {
	f := flawed{dollar: dollar(topic), v: v &^ 1}
	if i := strings.IndexByte(topic, '#'); i >= 0 && i+1 < len(topic) {
		return f
	}
	f.levels = strings.Split(topic[:at], "/")
	last := len(f.levels) - 1
	f.levels, f.stub = f.levels[:last], f.levels[last]
	return f
}

// reached tells whether the topic, or filter of a subscription, agrees with the
// ACL as far as the flaw.
func (f *flawed) reached(topic string) bool {
	if f.dollar != dollar(topic) {
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
