package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// sortRules orders rules as they are evaluated: by type and then by priority from high to
// low; the order of equal ones is kept.
func sortRules(rules []accessRule) {
	slices.SortStableFunc(rules, func(a, b accessRule) int {
		return cmp.Or(cmp.Compare(slices.Index(ruleTypes, a.Type), slices.Index(ruleTypes, b.Type)), cmp.Compare(b.Priority, a.Priority))
	})
}

// moveRule moves a rule to the place before or after it, among those of its type. The
// priorities stay where they are, so that the order changes also between different ones.
func moveRule(rules []accessRule, i, by int) {
	j := i + by
	if i < 0 || i >= len(rules) || j < 0 || j >= len(rules) || rules[i].Type != rules[j].Type {
		return
	}
	rules[i], rules[j] = rules[j], rules[i]
	rules[i].Priority, rules[j].Priority = rules[j].Priority, rules[i].Priority
}

// formatRules writes rules as text, one on each line: "allow publishClientSend 0 plant/#".
func formatRules(rules []accessRule) string {
	var b strings.Builder
	for _, r := range rules {
		verb := "deny"
		if r.Allow {
			verb = "allow"
		}
		fmt.Fprintf(&b, "%s %s %d %s\n", verb, r.Type, r.Priority, quoteTopic(r.Topic))
	}
	return b.String()
}

// quoteTopic writes a topic that a line of text would change as a string of JSON.
func quoteTopic(topic string) string {
	if topic != "" && topic == strings.TrimSpace(topic) && topic[0] != '"' && strings.IndexFunc(topic, isInvisible) < 0 {
		return topic
	}
	quoted, _ := json.Marshal(topic) // a string always has a form
	return string(quoted)
}

// lineError is the error of a line of pasted rules.
type lineError struct {
	Line int
	Key  string // of the text, with the wrong word as its argument
	Word string
}

// maxLineErrors bounds the errors that are reported at once.
const maxLineErrors = 20

// parseRules reads rules as text. The priority may be absent, then it is 0; empty lines
// and those that begin with # are skipped.
func parseRules(text string) (rules []accessRule, bad []lineError) {
	n := 0
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		rule, key, word := parseRule(line)
		switch {
		case key == "":
			rules = append(rules, rule)
		case len(bad) < maxLineErrors:
			bad = append(bad, lineError{Line: n, Key: key, Word: word})
		}
	}
	return rules, bad
}

// parseRule reads a rule. It returns the key of the error, "" if there is none.
func parseRule(line string) (rule accessRule, key, word string) {
	verb, rest := cutWord(line)
	kind, rest := cutWord(rest)
	switch strings.ToLower(verb) {
	case "allow":
		rule.Allow = true
	case "deny":
	default:
		return rule, "rules.bad.verb", verb
	}
	i := slices.IndexFunc(ruleTypes, func(t string) bool { return strings.EqualFold(t, kind) })
	if i < 0 {
		return rule, "rules.bad.type", kind
	}
	rule.Type = ruleTypes[i]
	if first, after := cutWord(rest); after != "" {
		if priority, err := strconv.Atoi(first); err == nil {
			rule.Priority, rest = priority, after
		} else if errors.Is(err, strconv.ErrRange) {
			return rule, "rules.bad.priority", first
		}
	}
	if strings.HasPrefix(rest, `"`) {
		if json.Unmarshal([]byte(rest), &rule.Topic) != nil {
			return rule, "rules.bad.quoted", rest
		}
		return rule, "", ""
	}
	if rest == "" {
		return rule, "rules.bad.topic", line
	}
	rule.Topic = rest
	return rule, "", ""
}

// cutWord returns the first word, and what follows it.
func cutWord(s string) (word, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// ruleChange is a difference between two versions of a role.
type ruleChange struct {
	Kind          string // added, removed, changed or moved
	Before, After accessRule
}

// diffRules returns what changes from one list of rules to another. A rule is the same if
// type and topic are: a role has one for each.
func diffRules(before, after []accessRule) (changes []ruleChange) {
	old := byTarget(before)
	for _, r := range after {
		was, ok := old[r.target()]
		switch {
		case !ok:
			changes = append(changes, ruleChange{Kind: "added", After: r})
		case was != r:
			changes = append(changes, ruleChange{Kind: "changed", Before: was, After: r})
		}
	}
	kept := byTarget(after)
	for _, r := range before {
		if _, ok := kept[r.target()]; !ok {
			changes = append(changes, ruleChange{Kind: "removed", Before: r})
		}
	}
	return append(changes, movedRules(before, after)...)
}

// movedRules returns the rules of both lists that have another place among those of the
// same type and priority.
func movedRules(before, after []accessRule) (moved []ruleChange) {
	kept := commonRules(before, after)
	for i, r := range commonRules(after, before) {
		if i < len(kept) && kept[i] != r {
			moved = append(moved, ruleChange{Kind: "moved", Before: r, After: r})
		}
	}
	return moved
}

// commonRules returns the rules of a list that another list has unchanged, in order of their
// evaluation.
func commonRules(rules, other []accessRule) []accessRule {
	have := byTarget(other)
	same := slices.DeleteFunc(slices.Clone(rules), func(r accessRule) bool { return have[r.target()] != r })
	sortRules(same)
	return same
}

type ruleTarget struct{ kind, topic string }

func (r accessRule) target() ruleTarget { return ruleTarget{r.Type, r.Topic} }

func byTarget(rules []accessRule) map[ruleTarget]accessRule {
	m := make(map[ruleTarget]accessRule, len(rules))
	for _, r := range rules {
		m[r.target()] = r
	}
	return m
}
