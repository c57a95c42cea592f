package broker

import "errors"

// Kind is what the caller of a failed operation can do about it.
type Kind int

// The kinds of failure.
const (
	Internal    Kind = iota // the broker failed, or we did
	NotFound                // the named thing is not there
	Exists                  // the name is taken
	Conflict                // the state forbids it (in use, protected)
	Invalid                 // the broker refused the arguments
	Denied                  // the broker refused our credentials or rights
	Unsupported             // this broker has no such feature
	Unavailable             // nothing was sent; retrying is safe
	Unconfirmed             // sent, no answer; it may have happened
)

// Error is a failed operation on a broker. Msg is a sentence for the user; Err
// is the cause for the log. Feature is set where Kind is Unsupported; Fields
// where Kind is Invalid and it is known what is wrong with the arguments.
type Error struct {
	Kind    Kind
	Op      string
	Feature Capability
	Fields  []Field
	Msg     string
	Err     error
}

// Field is an argument that cannot be used, by its path in the request's body,
// as in "query.select[1].function.name", and what is wrong with it.
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

// NotSupported is the answer of a broker that lacks the feature.
func NotSupported(op string, feature Capability) error {
	return &Error{Kind: Unsupported, Op: op, Feature: feature,
		Msg: "this broker does not offer " + string(feature)}
}
