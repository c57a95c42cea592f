package bridges

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	failure "github.com/santhosh-tekuri/jsonschema/v6/kind"

	"signalbox/broker"
)

// validate validates a document with the schema.
func (s *schema) validate(document any) Problems {
	root := toAny(document)
	err := s.compiled.Validate(root)
	if err == nil {
		return nil
	}
	validation, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return Problems{{"", "cannot be held against the schema"}}
	}
	leaves := leavesOf(validation)
	failed := failedPaths(leaves)
	var problems Problems
	for _, l := range leaves {
		if isConsequence(l, failed) {
			continue
		}
		problems = append(problems, explain(pathOf(root, l.InstanceLocation), l.ErrorKind)...)
	}
	return sorted(problems)
}

// isConsequence reports whether an unknown member is only a consequence of another failure: the
// schema that knows the member has failed too.
func isConsequence(l *jsonschema.ValidationError, failed [][]string) bool {
	if !isUnknown(l) || len(l.InstanceLocation) == 0 {
		return false
	}
	parent := l.InstanceLocation[:len(l.InstanceLocation)-1]
	i, _ := slices.BinarySearchFunc(failed, parent, slices.Compare)
	return i < len(failed) && len(failed[i]) >= len(parent) && slices.Equal(failed[i][:len(parent)], parent)
}

// failedPaths returns the paths of all failures except unknown members, sorted.
func failedPaths(leaves []*jsonschema.ValidationError) [][]string {
	var places [][]string
	for _, l := range leaves {
		if !isUnknown(l) {
			places = append(places, l.InstanceLocation)
		}
	}
	slices.SortFunc(places, slices.Compare)
	return places
}

func isUnknown(l *jsonschema.ValidationError) bool {
	_, ok := l.ErrorKind.(*failure.FalseSchema)
	return ok
}

// leavesOf returns the innermost failures. Of alternatives it takes the closest one.
func leavesOf(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch k := e.ErrorKind.(type) {
	case *failure.AnyOf:
		return closest(e)
	case *failure.OneOf:
		if len(k.Subschemas) == 0 {
			return closest(e)
		}
		return []*jsonschema.ValidationError{e}
	case *failure.PropertyNames, *failure.Not, *failure.Contains:
		return []*jsonschema.ValidationError{e}
	}
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, c := range e.Causes {
		all = append(all, leavesOf(c)...)
	}
	return all
}

// closest returns the failures of the alternative with the fewest. Alternatives whose constants
// or types differ are the least likely.
func closest(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if missing := allMissing(e); missing != nil {
		return []*jsonschema.ValidationError{{InstanceLocation: e.InstanceLocation, ErrorKind: missing}}
	}
	var best []*jsonschema.ValidationError
	cost := 0
	for _, c := range e.Causes {
		leaves := leavesOf(c)
		n := len(leaves)
		for _, l := range leaves {
			switch l.ErrorKind.(type) {
			case *failure.Const, *failure.Enum:
				n += 1000
			case *failure.Type:
				n += 100
			}
		}
		if best == nil || n < cost {
			best, cost = leaves, n
		}
	}
	if best == nil {
		return []*jsonschema.ValidationError{e}
	}
	return best
}

// missing is the failure if each alternative lacks another member.
type missing struct {
	failure.AnyOf
	names []string
}

// allMissing returns a failure if alternatives fail only because each requires a member that is
// missing, otherwise nil.
func allMissing(e *jsonschema.ValidationError) *missing {
	m := &missing{}
	for _, c := range e.Causes {
		leaves := leavesOf(c)
		if len(leaves) != 1 || len(leaves[0].InstanceLocation) != len(e.InstanceLocation) {
			return nil
		}
		r, ok := leaves[0].ErrorKind.(*failure.Required)
		if !ok {
			return nil
		}
		m.names = append(m.names, strings.Join(r.Missing, " and "))
	}
	return m
}

// pathOf formats the path of a value.
func pathOf(root any, location []string) string {
	path, v := "", root
	for _, step := range location {
		switch t := v.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(t) {
				return path
			}
			path, v = elementPath(path, i), t[i]
		case map[string]any:
			path, v = memberPath(path, step), t[step]
		}
	}
	return path
}

// explain returns the problem of a failure in plain words, without the value.
func explain(path string, k jsonschema.ErrorKind) Problems {
	switch k := k.(type) {
	case *failure.Required:
		return forEach(path, k.Missing, "is missing")
	case *failure.AdditionalProperties:
		return forEach(path, k.Properties, "is not known here")
	case *failure.DependentRequired:
		return forEach(path, k.Missing, "is missing beside "+k.Prop)
	}
	return Problems{{path, valueProblem(k)}}
}

func forEach(path string, names []string, msg string) Problems {
	problems := make(Problems, 0, len(names))
	for _, n := range names {
		problems.Add(memberPath(path, n), msg)
	}
	return problems
}

// valueProblem returns the problem of a value.
func valueProblem(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *missing:
		return "needs one of " + strings.Join(k.names, ", ")
	case *failure.Type:
		return "must be " + article(k.Want) + ", not " + article([]string{k.Got})
	case *failure.Enum:
		return "must be one of " + values(k.Want)
	case *failure.Const:
		return "must be " + values([]any{k.Want})
	case *failure.Format:
		return "is not a valid " + k.Want
	case *failure.Pattern:
		return "must match the pattern " + k.Want
	case *failure.FalseSchema:
		return "is not known here"
	case *failure.OneOf:
		return "has members that exclude one another"
	case *failure.PropertyNames:
		return fmt.Sprintf("has a member %q, which cannot be a name here", k.Property)
	case *failure.UniqueItems:
		return fmt.Sprintf("holds the same twice, at %d and %d", k.Duplicates[0], k.Duplicates[1])
	}
	if s := limitProblem(k); s != "" {
		return s
	}
	return "does not match the schema"
}

// limitProblem returns the problem of a value that is too large or too small.
func limitProblem(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *failure.Minimum:
		return "must be at least " + number(k.Want)
	case *failure.Maximum:
		return "must be at most " + number(k.Want)
	case *failure.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *failure.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *failure.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *failure.MinLength:
		return least(k.Want, "characters")
	case *failure.MaxLength:
		return fmt.Sprintf("must not be longer than %d characters", k.Want)
	case *failure.MinItems:
		return least(k.Want, "entries")
	case *failure.MaxItems:
		return fmt.Sprintf("must not have more than %d entries", k.Want)
	case *failure.MinProperties:
		return least(k.Want, "members")
	case *failure.MaxProperties:
		return fmt.Sprintf("must not have more than %d members", k.Want)
	}
	return ""
}

func least(n int, of string) string {
	if n == 1 {
		return "must not be empty"
	}
	return fmt.Sprintf("must have at least %d %s", n, of)
}

func number(r *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(r.FloatString(6), "0"), ".")
}

func article(types []string) string {
	var all []string
	for _, t := range types {
		switch t {
		case "null":
			all = append(all, "null")
		case "integer":
			all = append(all, "a whole number")
		case "object", "array":
			all = append(all, "an "+t)
		default:
			all = append(all, "a "+t)
		}
	}
	return strings.Join(all, " or ")
}

func values(list []any) string {
	var all []string
	for _, v := range list {
		if s, ok := v.(string); ok && s != "" {
			all = append(all, s)
		} else {
			all = append(all, fingerprint(v))
		}
	}
	return strings.Join(all, ", ")
}

// sorted returns problems sorted by path, without duplicates.
func sorted(problems Problems) Problems {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(comparePaths(a.Path, b.Path), strings.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(problems)
}

// comparePaths compares paths so that entry 2 sorts before entry 10.
func comparePaths(a, b string) int {
	for a != "" && b != "" {
		n, restA := leadingNumber(a)
		m, restB := leadingNumber(b)
		if restA != a && restB != b {
			if n != m {
				return cmp.Compare(n, m)
			}
			a, b = restA, restB
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingNumber(s string) (n int, rest string) {
	i := 0
	for i < len(s) && i < 9 && s[i] >= '0' && s[i] <= '9' {
		n = 10*n + int(s[i]-'0')
		i++
	}
	return n, s[i:]
}

// invalidError returns the error for an invalid document. Its text has the first few problems.
func invalidError(op string, problems Problems) error {
	const most = 3
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems:maxProblems], Problem{"", "there are more problems than are reported at once"})
	}
	var parts []string
	fields := make([]broker.Field, 0, len(problems))
	for i, p := range problems {
		fields = append(fields, broker.Field{Path: p.Path, Msg: p.Msg})
		if i < most {
			parts = append(parts, strings.TrimPrefix(p.Path+": "+p.Msg, ": "))
		}
	}
	if more := len(problems) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return &broker.Error{Kind: broker.Invalid, Op: op, Fields: fields, Msg: strings.Join(parts, "; ")}
}
