package dynsec

import (
	"encoding/json"

	"signalbox/broker"
)

// maskedPassword stands for a password in what is recorded of a command.
const maskedPassword = "***"

// Recorded returns what is recorded of a command that changes something: its canonical name and
// the arguments that it has, without its password. ok is false for a command that only reads and
// for an unknown one.
func (c Command) Recorded() (change broker.ControlCommand, ok bool) {
	if c.op == nil || !c.op.mutates {
		return change, false
	}
	if c.args.password.given {
		c.args.password = given(maskedPassword)
	}
	c.correlation = nil
	change.Name = c.Name()
	if json.Unmarshal(appendCommand(nil, c), &change.Members) != nil {
		change.Members = nil // our own encoding is valid
	}
	delete(change.Members, "command")
	return change, true
}
