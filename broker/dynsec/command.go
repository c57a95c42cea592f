package dynsec

import (
	"fmt"

	"signalbox/broker"
)

// Command is one command of a request. The zero value is an unknown command. Printing
// it shows its name only, as it may contain a password.
type Command struct {
	op          *operation // nil if unknown
	name        string     // as in the request
	correlation *string
	args        arguments
	hash        string // of args.password
	refused     error  // why it must not be run; nil for none
}

// arguments are all possible arguments; each command uses its own.
type arguments struct {
	username, groupname, rolename arg[string]
	password, clientID            arg[string]
	textName, textDescription     arg[string]
	aclType, topic                arg[string]
	priority, count, offset       arg[int]
	allow, wildcardSubs, verbose  arg[bool]
	roles, groups, clients        arg[[]ref]
	acls                          arg[[]aclArg]
}

// arg is a member of a request: absent, of a wrong type, or with a value.
type arg[T any] struct {
	given bool // the member is present
	good  bool // and of the right type
	value T
}

func given[T any](v T) arg[T] { return arg[T]{given: true, good: true, value: v} }

func (a arg[T]) wrong() bool { return a.given && !a.good }

func (a arg[T]) or(otherwise T) T {
	if a.good {
		return a.value
	}
	return otherwise
}

// ptr returns a pointer to a copy of the value, or nil if it is absent.
func (a arg[T]) ptr() *T {
	if !a.good {
		return nil
	}
	return &a.value
}

// ref is an entry of a list of roles, groups or clients.
type ref struct {
	name     arg[string]
	priority broker.Priority
}

// aclArg is an entry of a list of ACLs or of default access.
type aclArg struct {
	aclType, topic arg[string]
	priority       int
	allow          arg[bool]
}

// Name returns the command's canonical name; of an unknown command, the given one.
func (c Command) Name() string {
	if c.op == nil {
		return c.name
	}
	return c.op.name
}

// Object returns the name of the client, group or role that the command is about, "" for none.
func (c Command) Object() string {
	return c.args.username.or(c.args.groupname.or(c.args.rolename.or("")))
}

// String returns the name, never the arguments.
func (c Command) String() string { return c.Name() }

// GoString returns the name, never the arguments.
func (c Command) GoString() string { return c.Name() }

// CorrelationData returns the data by which the sender identifies the response.
func (c Command) CorrelationData() (string, bool) {
	if c.correlation == nil {
		return "", false
	}
	return *c.correlation, true
}

// WithCorrelation returns the command with correlation data.
func (c Command) WithCorrelation(id string) Command {
	c.correlation = &id
	return c
}

// Mutates reports whether the command can change the state.
func (c Command) Mutates() bool { return c.op != nil && c.op.mutates }

// PasswordToHash returns the password that the command sets. The caller hashes it and
// passes the hash to SetPasswordHash before the command is run.
func (c *Command) PasswordToHash() (password string, ok bool) {
	if c.op == nil || !c.args.password.good {
		return "", false
	}
	switch c.op.name {
	case opCreateClient:
		return c.args.password.value, true
	case opModifyClient, opSetClientPassword:
		return c.args.password.value, c.args.password.value != ""
	}
	return "", false
}

// SetPasswordHash sets the hash to store; see PasswordToHash.
func (c *Command) SetPasswordHash(hash string) { c.hash = hash }

// RefusePassword makes the command fail because its password is shorter than required.
func (c *Command) RefusePassword(needed int) {
	c.refused = refusal(fmt.Sprintf(passwordRefused+"it must have at least %d characters", needed))
}
