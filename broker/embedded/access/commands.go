package access

import (
	"context"
	"slices"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// Handle does one request that came in on dynsec.Topic and gives the answer to
// publish on dynsec.ResponseTopic, and the clients to disconnect once it is
// out. What the answer says is durable. Commands succeed or fail each by
// itself; those that only read see the ones before them.
//
// If the context ends before the answer is there, the answer is nil, the
// request may still be done, and its cuts go to OnCut. The cuts of a request that
// another broker decides about come here with the change itself, before the
// answer.
func (c *Control) Handle(ctx context.Context, payload []byte) (answer []byte, cuts []dynsec.Cut) {
	request := dynsec.DecodeRequest(payload)
	answer, cuts, err := c.handle(ctx, request, payload)
	switch {
	case err == nil:
		return answer, cuts
	case broker.KindOf(err) == broker.Unconfirmed && ctx.Err() != nil:
		return nil, nil
	}
	return encode(request, failed(request.Commands, dynsec.NotDone(err))), nil
}

// handle does a request where it is decided about. It goes to another broker as
// it came, for what is wrong with it is part of it.
func (c *Control) handle(ctx context.Context, request dynsec.Request, payload []byte) ([]byte, []dynsec.Cut, error) {
	if r := c.elsewhere(); r != nil && mutates(request.Commands) {
		answer, err := c.forward(ctx, r, requestCommands, payload)
		return answer, nil, err
	}
	return c.answer(ctx, request)
}

// answer does a request here.
func (c *Control) answer(ctx context.Context, request dynsec.Request) ([]byte, []dynsec.Cut, error) {
	answers, cuts, err := c.do(ctx, request.Commands)
	if err != nil {
		return nil, nil, err
	}
	return encode(request, answers), cuts, nil
}

// encode gives the answer to a request.
func encode(request dynsec.Request, answers []dynsec.Answer) []byte {
	if request.Fault != nil {
		answers = append(answers, *request.Fault)
	}
	return dynsec.EncodeAnswers(answers)
}

func mutates(commands []dynsec.Command) bool {
	return slices.ContainsFunc(commands, dynsec.Command.Mutates)
}

// failed answers commands that could not be done for reasons of our own.
func failed(commands []dynsec.Command, why string) []dynsec.Answer {
	answers := make([]dynsec.Answer, len(commands))
	for i, command := range commands {
		answers[i] = dynsec.Answer{Command: command.Name(), Error: why}
		if id, ok := command.CorrelationData(); ok {
			answers[i].CorrelationData = &id
		}
	}
	return answers
}

// do runs commands in order: on the published state where all of them only
// read, else through the writer.
func (c *Control) do(ctx context.Context, commands []dynsec.Command) (answers []dynsec.Answer, cuts []dynsec.Cut, err error) {
	var done []dynsec.Answer // no result of this function: the writer may be at work on it when that has returned
	run := func(tx *dynsec.Tx) error {
		done = nil // of an attempt that came to nothing
		for _, command := range commands {
			done = append(done, tx.Do(command, c.live))
		}
		return nil
	}
	if !mutates(commands) {
		err = run(c.state.Load().Begin())
		return done, nil, err
	}
	if err := c.hashPasswords(ctx, commands); err != nil {
		return nil, nil, err
	}
	if cuts, err = c.change(ctx, &request{apply: run}); err != nil {
		return nil, nil, err
	}
	return done, cuts, nil
}

// hashPasswords puts hashes in the place of the passwords that commands set, so
// that the writer need not wait for it. Commands with passwords that are too short
// will fail.
func (c *Control) hashPasswords(ctx context.Context, commands []dynsec.Command) error {
	for i := range commands {
		password, ok := commands[i].PasswordToHash()
		if !ok {
			continue
		}
		if utf8.RuneCountInString(password) < c.minLength {
			commands[i].RefusePassword(c.minLength)
			continue
		}
		hash, err := c.hashPassword(ctx, password)
		if err != nil {
			return err
		}
		commands[i].SetPasswordHash(hash)
	}
	return nil
}

func (c *Control) hashPassword(ctx context.Context, password string) (string, error) {
	if err := c.hashing.acquire(ctx); err != nil {
		return "", &broker.Error{Kind: broker.Unavailable,
			Msg: "the broker is busy hashing passwords; nothing was changed", Err: err}
	}
	defer c.hashing.release()
	return dynsec.HashPassword([]byte(password), c.iterations)
}
