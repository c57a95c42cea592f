package dynsec

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

// reference computes the result of Rights.Allowed one ACL after the other, with nothing
// compiled.
type reference struct {
	username string
	roles    []broker.Role
	defaults Defaults
}

func (r reference) allowed(ev Event, clientID, topic string) bool {
	if ev <= PublishReceive && !validTopic(topic) || ev > PublishReceive && !validSubscription(topic) {
		return false
	}
	for _, role := range r.roles {
		if ev == Subscribe && !role.AllowWildcardSubs && strings.ContainsAny(topic, "+#") {
			return false
		}
		literal, pattern := aclTypesOf(ev)
		for _, a := range highestFirst(role.ACLs, literal) {
			if a.Topic == topic {
				return a.Allow
			}
		}
		for _, a := range highestFirst(role.ACLs, pattern) {
			switch {
			case !broker.ValidFilter(a.Topic) && agreesUpToFlaw(a.Topic, topic):
				return false
			case broker.ValidFilter(a.Topic) && r.matches(a, clientID, topic):
				return a.Allow
			}
		}
	}
	byDefault := []bool{r.defaults.PublishClientSend, r.defaults.PublishClientReceive, r.defaults.Subscribe, r.defaults.Unsubscribe}
	levels := strings.SplitN(topic, "/", 3)
	inControl := strings.HasPrefix(topic, "$CONTROL") ||
		len(levels) == 3 && levels[0] == "$share" && strings.HasPrefix(levels[2], "$CONTROL")
	return byDefault[ev] && !inControl
}

func aclTypesOf(ev Event) (literal, pattern broker.ACLType) {
	switch ev {
	case PublishSend:
		return "", broker.PublishClientSend
	case PublishReceive:
		return "", broker.PublishClientReceive
	case Subscribe:
		return broker.SubscribeLiteral, broker.SubscribePattern
	}
	return broker.UnsubscribeLiteral, broker.UnsubscribePattern
}

// highestFirst returns the ACLs of a type in order of evaluation. A role has a topic
// once per type; of duplicates the first counts.
func highestFirst(acls []broker.ACL, t broker.ACLType) []broker.ACL {
	of := slices.DeleteFunc(slices.Clone(acls), func(a broker.ACL) bool { return a.ACLType != t })
	slices.SortStableFunc(of, func(a, b broker.ACL) int { return cmp.Compare(b.Priority, a.Priority) })
	seen := make(map[string]bool)
	return slices.DeleteFunc(of, func(a broker.ACL) bool {
		twice := seen[a.Topic]
		seen[a.Topic] = true
		return twice
	})
}

func (r reference) matches(a broker.ACL, clientID, topic string) bool {
	if strings.HasPrefix(a.Topic, "$") != strings.HasPrefix(topic, "$") {
		return false
	}
	want, have := strings.Split(a.Topic, "/"), strings.Split(topic, "/")
	for i, w := range want {
		if w == "#" {
			return true
		}
		if i == len(have) || have[i] == "#" || !r.levelMatches(w, have[i], clientID, a.Allow) {
			return false
		}
	}
	return len(have) == len(want)
}

func (r reference) levelMatches(want, have, clientID string, allow bool) bool {
	value := map[string]string{"%c": clientID, "%u": r.username}
	v, isPlaceholder := value[want]
	switch {
	case isPlaceholder && strings.ContainsAny(v, "/+#"):
		return !allow
	case isPlaceholder:
		return v != "" && v == have
	}
	return want == "+" || want == have
}

// agreesUpToFlaw compares with a filter in which a wildcard is misplaced.
func agreesUpToFlaw(filter, topic string) bool {
	if strings.HasPrefix(filter, "$") != strings.HasPrefix(topic, "$") {
		return false
	}
	if i := strings.Index(filter, "#"); i >= 0 && i < len(filter)-1 {
		return true
	}
	have := strings.Split(topic, "/")
	for i, level := range strings.Split(filter, "/") {
		sound, _, flawed := strings.Cut(strings.ReplaceAll(level, "#", "+"), "+")
		switch {
		case i == len(have):
			return false
		case flawed && level != "+":
			return strings.HasPrefix(have[i], sound)
		case level != "+" && level != "%c" && level != "%u" && level != have[i]:
			return false
		}
	}
	return false
}

// Few words, so that generated topics often match.
var (
	genWords   = []string{"a", "a", "b", "", "dev1", "bob", "$a", "$CONTROL", "$share", "%c", "%u"}
	genWild    = append([]string{"+", "+", "#", "%c", "%u", "a"}, genWords...)
	genFlawed  = append([]string{"a+", "#", "+b", "a#"}, genWild...)
	genNames   = []string{"bob", "dev1", "", "a", "+", "#", "a/b", "$a", "a+", "%c"}
	genEvents  = []Event{PublishSend, PublishReceive, Subscribe, Unsubscribe}
	genLengths = []int{1, 1, 2, 2, 2, 3, 3, 4}
)

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

func genPath(rng *rand.Rand, words []string) string {
	levels := make([]string, pick(rng, genLengths))
	for i := range levels {
		levels[i] = pick(rng, words)
	}
	return strings.Join(levels, "/")
}

func genRole(rng *rand.Rand) broker.Role {
	r := broker.Role{AllowWildcardSubs: rng.IntN(5) > 0}
	for range rng.IntN(12) {
		words := pick(rng, [][]string{genWords, genWild, genWild, genWild, genFlawed})
		r.ACLs = append(r.ACLs, acl(pick(rng, aclTypes), genPath(rng, words), rng.IntN(2) == 0, rng.IntN(5)-2))
	}
	return r
}

func TestRightsAgreeWithTheReference(t *testing.T) {
	t.Parallel()
	const seed, configurations, questions = 7, 3000, 100
	rng := rand.New(rand.NewPCG(seed, seed))
	seen := make(map[bool]int)
	for range configurations {
		ref := reference{username: pick(rng, genNames), roles: make([]broker.Role, rng.IntN(5))}
		for i := range ref.roles {
			ref.roles[i] = genRole(rng)
		}
		ref.defaults = Defaults{rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0}
		rights := defaultedRights(ref.username, ref.defaults, ref.roles...)
		for range questions {
			ev, clientID, topic := pick(rng, genEvents), pick(rng, genNames), genPath(rng, pick(rng, [][]string{genWords, genWild}))
			got, want := rights.Allowed(ev, clientID, topic), ref.allowed(ev, clientID, topic)
			if got != want {
				t.Fatalf("seed %d: user %q, client id %q, event %d, %q: got %v, want %v; roles %+v, %+v",
					seed, ref.username, clientID, ev, topic, got, want, ref.roles, ref.defaults)
			}
			seen[got]++
		}
	}
	if least := configurations * questions / 10; seen[true] < least || seen[false] < least {
		t.Errorf("the questions are lopsided: %v", seen)
	}
}

func FuzzAllowed(f *testing.F) {
	f.Add("a/%c/#", "b/+", "a/x/y", "x", "u", uint8(0), true)
	f.Add("bad+", "#", "bad", "+", "u/v", uint8(2), false)
	f.Add("$share/#", "%u", "$share/g/a", "", "", uint8(3), true)
	f.Fuzz(func(t *testing.T, first, second, topic, clientID, username string, ev uint8, allow bool) {
		e := genEvents[ev%4]
		literal, pattern := aclTypesOf(e)
		role := roleOf(acl(pattern, first, allow, 0), acl(pattern, second, !allow, 1))
		if literal != "" {
			role.ACLs = append(role.ACLs, acl(literal, second, allow, 2))
		}
		ref := reference{username: username, roles: []broker.Role{role}, defaults: DefaultDefaults()}
		if got, want := rightsOf(username, role).Allowed(e, clientID, topic), ref.allowed(e, clientID, topic); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
