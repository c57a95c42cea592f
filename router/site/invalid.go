package site

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// schemaError returns the faults with their places, one in each line. The sentences of the
// library would cost 300 KB of the program.
func schemaError(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	lines := faults(invalid)
	slices.Sort(lines)
	return errors.New(strings.Join(slices.Compact(lines), "\n"))
}

// faults returns a line for each fault. One of several schemas for a value is a fault of
// the value itself.
func faults(e *jsonschema.ValidationError) (lines []string) {
	text, own := sentence(e.ErrorKind)
	if own || len(e.Causes) == 0 {
		return []string{strings.TrimPrefix(strings.Join(e.InstanceLocation, ".")+": ", ": ") + text}
	}
	for _, cause := range e.Causes {
		lines = append(lines, faults(cause)...)
	}
	return lines
}

// sentence returns what is wrong. It is not own if the causes say it better.
func sentence(k jsonschema.ErrorKind) (text string, own bool) {
	switch k := k.(type) {
	case *kind.Required:
		return "lacks " + strings.Join(k.Missing, ", "), true
	case *kind.AdditionalProperties:
		return "has no member " + strings.Join(k.Properties, ", "), true
	case *kind.Type:
		return "must be of type " + strings.Join(k.Want, " or "), true
	case *kind.Enum:
		return "must be one of " + strings.Trim(fmt.Sprint(k.Want), "[]"), true
	case *kind.Const:
		return fmt.Sprintf("must be %v", k.Want), true
	case *kind.MinLength, *kind.MinItems:
		return "must not be empty", true
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString(), true
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString(), true
	case *kind.AnyOf:
		return "must be a name, or an object with a name and a priority", true
	case *kind.OneOf:
		return "must be an object with env or with file, which say where the secret is", true
	}
	return "is not valid: " + strings.Join(k.KeywordPath(), "."), false
}
