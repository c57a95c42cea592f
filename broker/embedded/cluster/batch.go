package cluster

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"
)

// BatchMachine is a machine that applies several commands at once faster than one
// by one.
type BatchMachine interface {
	Machine

	// ApplyBatch applies commands in their order and returns an answer to each, as Apply
	// would one by one. The changes and the last index are stored together or not at
	// all. Where it answers with an ApplyError, that command and all
	// behind it must not have been applied.
	ApplyBatch(commands []Command) (answers []any)
}

// Command is a command of the log at its place there. Indices grow and have gaps.
type Command struct {
	Index uint64
	Data  []byte
}

// A batch has as many commands as raft hands over at once, or fewer, so that those
// who read the machine beside it do not wait for too long.
const maxBatchBytes = 4 << 20 // a single command may have more

// ApplyBatch applies entries of the log in their order. The answers are outcomes.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	machine, batches := f.machine.(BatchMachine)
	b := batch{fsm: f, machine: machine, answers: answers}
	for i, l := range logs {
		switch {
		case l.Type != raft.LogCommand:
		case batches && f.isForMachine(l):
			b.add(i, l)
		default:
			b.flush()
			answers[i] = f.Apply(l)
		}
	}
	b.flush()
	return answers
}

// isForMachine reports whether an entry is a command for the machine that can be applied
// in a batch.
func (f *fsm) isForMachine(l *raft.Log) bool {
	return len(l.Data) >= machineHeader && l.Data[0] == forMachine && l.Index > f.machineIndex &&
		binary.BigEndian.Uint64(l.Data[1:]) == l.Term && !f.state.Load().Dissolved && f.applyError.Load() == nil
}

// batch is what is about to be applied to the machine.
type batch struct {
	fsm      *fsm
	machine  BatchMachine
	commands []Command
	places   []int // of the answers
	bytes    int
	answers  []any // to all entries
}

func (b *batch) add(place int, l *raft.Log) {
	if b.bytes > 0 && b.bytes+len(l.Data) > maxBatchBytes {
		b.flush()
	}
	b.commands = append(b.commands, Command{l.Index, l.Data[machineHeader:]})
	b.places = append(b.places, place)
	b.bytes += len(l.Data)
}

// flush applies what was added.
func (b *batch) flush() {
	f := b.fsm
	if len(b.commands) == 0 {
		return
	}
	var answers []any
	if f.applyError.Load() == nil {
		answers = b.machine.ApplyBatch(b.commands)
	}
	for i, c := range b.commands {
		var answer any = ApplyError{fmt.Errorf("command %d was not answered", c.Index)}
		if i < len(answers) {
			answer = answers[i]
		}
		b.answers[b.places[i]] = f.conclude(c.Index, answer)
	}
	*b = batch{fsm: f, machine: b.machine, answers: b.answers}
}

// conclude returns the outcome of a command that the machine has answered. After one that
// it could not apply there are no more.
func (f *fsm) conclude(index uint64, answer any) outcome {
	if stop := f.applyError.Load(); stop != nil {
		return outcome{err: unconfirmed(stop.Err)}
	}
	if stop, ok := answer.(ApplyError); ok {
		f.stopApplying(stop, index)
		return outcome{err: unconfirmed(stop.Err)}
	}
	f.machineIndex = index
	f.advance(index)
	return outcome{answer: answer}
}
