package handlers

import (
	"errors"
	"fmt"
	"time"

	"signalbox/broker"
	"signalbox/db"
	"signalbox/handlers/auth"
)

// The codes of the error object. They are stable; the manual lists them.
const (
	CodeUnauthorized      = "UNAUTHORIZED"
	CodeForbidden         = "FORBIDDEN"
	CodeNotFound          = "NOT_FOUND"
	CodeMethodNotAllowed  = "METHOD_NOT_ALLOWED"
	CodeNotSupported      = "NOT_SUPPORTED"
	CodeInvalidRequest    = "INVALID_REQUEST"
	CodeAlreadyExists     = "ALREADY_EXISTS"
	CodeConflict          = "CONFLICT"
	CodeLastAdmin         = "LAST_ADMIN"
	CodePayloadTooLarge   = "PAYLOAD_TOO_LARGE"
	CodeTooManyAttempts   = "TOO_MANY_ATTEMPTS"
	CodeTooManyStreams    = "TOO_MANY_STREAMS"
	CodeSearchBusy        = "SEARCH_BUSY"
	CodeBrokerUnavailable = "BROKER_UNAVAILABLE"
	CodeBrokerTimeout     = "BROKER_TIMEOUT"
	CodeBrokerError       = "BROKER_ERROR"
	CodeInternalError     = "INTERNAL_ERROR"
)

// Error is a failure as the caller sees it. Cause is for the log only.
type Error struct {
	Status     int
	Code       string
	Message    string
	Info       map[string]any
	RetryAfter time.Duration
	Cause      error
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrorObject is the body of every error response.
type ErrorObject struct {
	Message string         `json:"message" doc:"What failed, as a sentence." example:"the project has no broker with this id"`
	Code    string         `json:"code" doc:"Stable code: UNAUTHORIZED, FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED, NOT_SUPPORTED, INVALID_REQUEST, ALREADY_EXISTS, CONFLICT, LAST_ADMIN, PAYLOAD_TOO_LARGE, TOO_MANY_ATTEMPTS, TOO_MANY_STREAMS, SEARCH_BUSY, BROKER_UNAVAILABLE, BROKER_TIMEOUT, BROKER_ERROR or INTERNAL_ERROR." example:"NOT_FOUND"`
	Status  int            `json:"status" doc:"HTTP status of the response." example:"404"`
	Info    map[string]any `json:"info,omitempty" doc:"Details that depend on the code: errors (invalid fields, each with field and message), feature or requestId. Absent if there are none." example:"-"`
}

// Object returns the body of the response.
func (e *Error) Object() *ErrorObject {
	return &ErrorObject{Message: e.Message, Code: e.Code, Status: e.Status, Info: e.Info}
}

// FieldError names a field of the request, as in "body.roles[0].rolename" or
// "query.count", and what is wrong with it.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Invalid is the error for a request with invalid fields.
func Invalid(fields ...FieldError) *Error {
	msg := "the request is not valid; see info.errors"
	if len(fields) == 1 {
		msg = fields[0].Field + ": " + fields[0].Message
	}
	return &Error{Status: 400, Code: CodeInvalidRequest, Message: msg, Info: map[string]any{"errors": fields}}
}

// Forbidden is the error for a caller who may not do this.
func Forbidden(message string) *Error {
	return &Error{Status: 403, Code: CodeForbidden, Message: message}
}

func conflict(message string) *Error {
	return &Error{Status: 400, Code: CodeConflict, Message: message}
}

func exists(err error, message string) error {
	if errors.Is(err, db.ErrExists) {
		return &Error{Status: 400, Code: CodeAlreadyExists, Message: message, Cause: err}
	}
	return err
}

func notFound(err error, message string) error {
	if errors.Is(err, db.ErrNotFound) {
		return &Error{Status: 404, Code: CodeNotFound, Message: message, Cause: err}
	}
	return err
}

// ErrorFor converts every failure to what the caller sees.
func ErrorFor(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return brokerError(e, err)
	}
	if e, ok := errors.AsType[*auth.TooManyAttempts](err); ok {
		return &Error{Status: 429, Code: CodeTooManyAttempts, RetryAfter: e.RetryAfter, Cause: err,
			Message: fmt.Sprintf("too many failed log-ins; try again in %s", e.Wait())}
	}
	for _, c := range ownErrors {
		if errors.Is(err, c.sentinel) {
			return &Error{Status: c.status, Code: c.code, Message: c.message, Cause: err}
		}
	}
	return &Error{Status: 500, Code: CodeInternalError, Cause: err,
		Message: "the service failed; its operator finds the cause in the log by info.requestId"}
}

// ownErrors are the errors for failures of db and auth, unless the operation has a more
// precise one.
var ownErrors = []struct {
	sentinel error
	status   int
	code     string
	message  string
}{
	{auth.ErrUnauthenticated, 401, CodeUnauthorized, "log in, or send a valid token in the header Authorization: Bearer <token>"},
	{auth.ErrUsersOnly, 403, CodeForbidden, "only a signed-in user can do this, a project token cannot"},
	{db.ErrNotFound, 404, CodeNotFound, "there is nothing with this id"},
	{db.ErrExists, 400, CodeAlreadyExists, "the name is already taken"},
	{db.ErrInUse, 400, CodeConflict, "it is still in use"},
	{db.ErrConflict, 400, CodeConflict, "another caller changed it at the same time; read it again and repeat the change"},
	{db.ErrLastRoot, 400, CodeLastAdmin, "the last administrator can be neither deleted nor demoted; appoint another one first"},
	{db.ErrUnconfirmed, 503, CodeBrokerTimeout, "the cluster did not confirm the change in time, so it may have been made; look before you repeat it"},
	{db.ErrNoKey, 503, CodeBrokerUnavailable, "this node has not received the key of the cluster's secrets yet, so it cannot use or store passwords; try again when it reaches a node that has the key, or at another node"},
	{db.ErrUnavailable, 503, CodeBrokerUnavailable, "nothing was changed, as this node reaches no majority of the cluster's nodes; try again when it does, or at another node"},
}

// brokerError returns the error for a broker's failure.
func brokerError(e *broker.Error, err error) *Error {
	out := &Error{Message: e.Msg, Cause: err}
	switch e.Kind {
	case broker.NotFound:
		out.Status, out.Code = 404, CodeNotFound
	case broker.Exists:
		out.Status, out.Code = 400, CodeAlreadyExists
	case broker.Conflict:
		out.Status, out.Code = 400, CodeConflict
	case broker.Invalid:
		out.Status, out.Code = 400, CodeInvalidRequest
		out.Info = map[string]any{"errors": fieldsOf(e)}
	case broker.Unsupported:
		out.Status, out.Code = 405, CodeNotSupported
		out.Info = map[string]any{"feature": e.Feature}
	case broker.Denied, broker.Unavailable:
		out.Status, out.Code = 503, CodeBrokerUnavailable
	case broker.Unconfirmed:
		out.Status, out.Code = 503, CodeBrokerTimeout
	default:
		out.Status, out.Code = 500, CodeBrokerError
	}
	return out
}

// fieldsOf returns the fields that a broker refused: those that it named, or the body
// as a whole.
func fieldsOf(e *broker.Error) []FieldError {
	if len(e.Fields) == 0 {
		return []FieldError{{Field: "body", Message: e.Msg}}
	}
	fields := make([]FieldError, 0, len(e.Fields))
	for _, f := range e.Fields {
		fields = append(fields, FieldError{Field: "body." + f.Path, Message: f.Msg})
	}
	return fields
}
