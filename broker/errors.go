package broker

import "errors"

// Kind classifies a failed operation by what the caller can do about it.
type Kind int

// The kinds of failure.
const (
	Internal    Kind = iota // the broker failed, or this service
	NotFound                // the named object does not exist
	Exists                  // the name is taken
	Conflict                // the state forbids it (in use, protected)
	Invalid                 // the broker refused the arguments
	Denied                  // the broker refused our credentials or rights
	Unsupported             // this broker has no such feature
	Unavailable             // nothing was sent; retrying is safe
	Unconfirmed             // sent, no answer; it may have happened
)

// Error is a failed operation on a broker. Msg is a sentence for the user; Err is the
// cause for the log. Feature is set if Kind is Unsupported; Fields if Kind is Invalid
// and the invalid arguments are known.
type Error struct {
	Kind    Kind
	Op      string
	Feature Capability
	Fields  []Field
	Msg     string
	Err     error
}

// Field is an invalid argument, by its path in the request's body, as in
// "query.select[1].function.name", and the error.
type Field struct {
	Path string
	Msg  string
}

// Error returns the operation and the sentence, not the cause.
func (e *Error) Error() string {
	if e.Op == "" {
		return e.Msg
	}
	return e.Op + ": " + e.Msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the *Error in err's chain, or Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// NotSupported returns the error of a broker that lacks the feature.
func NotSupported(op string, feature Capability) error {
	return &Error{Kind: Unsupported, Op: op, Feature: feature,
		Msg: "this broker does not offer " + string(feature)}
}
