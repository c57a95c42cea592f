package cluster

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"
)

// BatchMachine is a machine that applies several commands together faster than one by one.
type BatchMachine interface {
	Machine

	// ApplyBatch applies commands in order and returns the result of each, as Apply would.
	// The changes and the last index are stored atomically. If a result is an ApplyError,
	// that command and all behind it must not have been applied.
	ApplyBatch(commands []Command) (answers []any)
}

// Command is a command with its index in the log. Indices grow and have gaps.
type Command struct {
	Index uint64
	Data  []byte
}

// A batch has at most as many commands as raft applies at once, and is bounded so that readers
// of the machine do not wait for long.
const maxBatchBytes = 4 << 20 // a single command may have more

// ApplyBatch applies entries of the log in order. The results are outcomes.
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

// isForMachine reports whether an entry is a command that the machine can apply in a batch.
func (f *fsm) isForMachine(l *raft.Log) bool {
	return len(l.Data) >= machineHeader && l.Data[0] == forMachine && l.Index > f.machineIndex &&
		binary.BigEndian.Uint64(l.Data[1:]) == l.Term && !f.state.Load().Dissolved && f.applyError.Load() == nil
}

// batch is the commands that are about to be applied.
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

// flush applies the commands of the batch.
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

// conclude returns the outcome of a command for its result. After an ApplyError all later
// commands fail.
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
