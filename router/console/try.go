package console

import "strings"

// triedTopic is an access that is tried against the draft of a role.
type triedTopic struct{ Action, Topic, Username, ClientID string }

// draftVerdict is what a draft alone decides about a tried access: Rule is the one that
// matches first, nil if none does.
type draftVerdict struct {
	Rule        *accessRule
	NoWildcards bool
	Invalid     bool // what is tried is not a topic, or not a topic filter
}

// try returns what the draft decides about the tried access, as the broker would: literal
// rules first, then patterns by their priority.
func (d *roleDraft) try() *draftVerdict {
	e, ok := accessEventOf(d.Tried.Action)
	isFilter := len(e.types) > 1
	wild := strings.ContainsAny(d.Tried.Topic, "+#")
	switch {
	case !ok || !isFilterText(d.Tried.Topic) || wild && !isFilter:
		return &draftVerdict{Invalid: true}
	case e.action == "subscribe" && wild && !d.AllowWildcardSubs:
		return &draftVerdict{NoWildcards: true}
	}
	rules := append([]accessRule(nil), d.Rules...)
	sortRules(rules)
	for _, kind := range e.types {
		for _, r := range rules {
			if r.Type == kind && r.matches(d.Tried) {
				return &draftVerdict{Rule: &r}
			}
		}
	}
	return &draftVerdict{}
}

// matches reports whether a rule applies to a topic or a topic filter of a client.
func (r accessRule) matches(t triedTopic) bool {
	if strings.HasSuffix(r.Type, "Literal") {
		return r.Topic == t.Topic
	}
	wanted, have := strings.Split(r.Topic, "/"), strings.Split(t.Topic, "/")
	if strings.HasPrefix(t.Topic, "$") && (wanted[0] == "#" || wanted[0] == "+" || wanted[0] == "%c" || wanted[0] == "%u") {
		return false
	}
	for i, level := range wanted {
		switch {
		case level == "#":
			return true
		case i >= len(have):
			return false
		case !r.matchesLevel(level, have[i], t):
			return false
		}
	}
	return len(wanted) == len(have)
}

// matchesLevel compares one level of the rule's topic.
func (r accessRule) matchesLevel(level, have string, t triedTopic) bool {
	switch {
	case have == "#":
		return false
	case level == "+":
		return true
	case level == "%u":
		return r.matchesName(t.Username, have)
	case level == "%c":
		return r.matchesName(t.ClientID, have)
	}
	return level == have
}

// matchesName compares a level with the name that a placeholder stands for. A name that
// cannot be a level allows nothing, and evades no denial.
func (r accessRule) matchesName(name, have string) bool {
	if strings.ContainsAny(name, "/+#") {
		return !r.Allow
	}
	return name != "" && name == have
}

// isFilterText reports whether wildcards stand where a topic filter may have them.
func isFilterText(s string) bool {
	levels := strings.Split(s, "/")
	for i, level := range levels {
		if strings.ContainsAny(level, "+#") && level != "+" && (level != "#" || i < len(levels)-1) {
			return false
		}
	}
	return s != "" && !strings.Contains(s, "\x00")
}
