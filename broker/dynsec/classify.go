package dynsec

import (
	"strings"

	"signalbox/broker"
)

// Classify turns the text of a command's error answer into a [*broker.Error].
// Mosquitto has no codes, so that its texts, which are the same in all its
// versions, are what there is to go by. Op is the command's name.
func Classify(op, text string) error {
	e := &broker.Error{Kind: kindOf(text), Op: op, Msg: text}
	if e.Kind == broker.Unsupported {
		e.Feature = broker.CapDynamicSecurity
	}
	return e
}

func kindOf(text string) broker.Kind {
	has := func(part string) bool { return strings.Contains(text, part) }
	begins := func(part string) bool { return strings.HasPrefix(text, part) }
	switch {
	case text == unknownCommand:
		return broker.Unsupported
	case has("not found"), has("does not exist"):
		return broker.NotFound
	case has("already"):
		return broker.Exists
	case has("anonymous group"):
		return broker.Conflict
	case begins("Invalid"), begins("Empty"), begins("Missing"), begins("Unknown"),
		has("not valid"), has("not an "), has("invalid"):
		return broker.Invalid
	}
	return broker.Internal
}
