package dynsec

import (
	"errors"
	"strings"

	"signalbox/broker"
)

// classify turns the text of a command's error into a [*broker.Error]. Mosquitto has no
// error codes, but its texts are the same in all its versions. Op is the command's
// name.
func classify(op, text string) error {
	e := &broker.Error{Kind: kindOf(text), Op: op, Msg: text}
	if e.Kind == broker.Unsupported {
		e.Feature = broker.CapDynamicSecurity
	}
	if problem, ok := strings.CutPrefix(text, passwordRefused); ok {
		e.Fields = []broker.Field{{Path: "password", Msg: problem}}
	}
	return e
}

// passwordRefused is the prefix of the text about a password that violates the rules.
const passwordRefused = "Invalid password: "

// The prefixes of texts that state whether a command may be sent again.
const (
	nothingChanged = "Nothing was changed, try again"
	outcomeUnknown = "It is not known whether this was done, look before you try again"
)

// NotDone returns the error text for a command that failed for an internal reason of
// the broker. It states whether to retry, if that is known.
func NotDone(err error) string {
	begin := ""
	switch broker.KindOf(err) {
	case broker.Unavailable:
		begin = nothingChanged
	case broker.Unconfirmed:
		begin = outcomeUnknown
	}
	e, ok := errors.AsType[*broker.Error](err)
	if begin == "" || !ok {
		return errInternal.Error()
	}
	return begin + ": " + e.Msg
}

func kindOf(text string) broker.Kind {
	has := func(part string) bool { return strings.Contains(text, part) }
	begins := func(part string) bool { return strings.HasPrefix(text, part) }
	switch {
	case text == unknownCommand:
		return broker.Unsupported
	case begins(nothingChanged):
		return broker.Unavailable
	case begins(outcomeUnknown):
		return broker.Unconfirmed
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
