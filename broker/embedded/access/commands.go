package access

import (
	"context"
	"slices"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// Handle handles a request received on dynsec.Topic. It returns the response to publish on
// dynsec.ResponseTopic, and the clients to disconnect after it was sent. What the response
// confirms is durable. Each command succeeds or fails by itself; those that only read see
// the effects of the earlier ones.
//
// If the context ends first, the response is nil, the request may still be executed, and
// the clients to disconnect are passed to OnDisconnect. Those of a request that another
// broker decides arrive with the change itself, before the response.
func (c *Control) Handle(ctx context.Context, payload []byte) (answer []byte, disconnects []dynsec.Disconnect) {
	request := dynsec.DecodeRequest(payload)
	answer, disconnects, err := c.handle(ctx, request, payload)
	switch {
	case err == nil:
		return answer, disconnects
	case broker.KindOf(err) == broker.Unconfirmed && ctx.Err() != nil:
		return nil, nil
	}
	return encode(request, failed(request.Commands, dynsec.NotDone(err))), nil
}

// handle handles a request on the broker that decides changes. It is forwarded unmodified,
// because its errors are part of it.
func (c *Control) handle(ctx context.Context, request dynsec.Request, payload []byte) ([]byte, []dynsec.Disconnect, error) {
	if r := c.remoteLeader(); r != nil && mutates(request.Commands) {
		answer, err := c.forward(ctx, r, requestCommands, payload)
		return answer, nil, err
	}
	return c.respond(ctx, request)
}

// respond handles a request on this broker.
func (c *Control) respond(ctx context.Context, request dynsec.Request) ([]byte, []dynsec.Disconnect, error) {
	answers, disconnects, err := c.do(ctx, request.Commands)
	if err != nil {
		return nil, nil, err
	}
	return encode(request, answers), disconnects, nil
}

// encode returns the response to a request.
func encode(request dynsec.Request, answers []dynsec.Response) []byte {
	if request.Fault != nil {
		answers = append(answers, *request.Fault)
	}
	return dynsec.EncodeResponses(answers)
}

func mutates(commands []dynsec.Command) bool {
	return slices.ContainsFunc(commands, dynsec.Command.Mutates)
}

// failed returns the response to commands that could not be executed for internal reasons.
func failed(commands []dynsec.Command, why string) []dynsec.Response {
	answers := make([]dynsec.Response, len(commands))
	for i, command := range commands {
		answers[i] = dynsec.Response{Command: command.Name(), Error: why}
		if id, ok := command.CorrelationData(); ok {
			answers[i].CorrelationData = &id
		}
	}
	return answers
}

// do runs commands in order: on the published state if all of them only read, else through
// the writer.
func (c *Control) do(ctx context.Context, commands []dynsec.Command) (answers []dynsec.Response, disconnects []dynsec.Disconnect, err error) {
	var done []dynsec.Response // not a result of this function: the writer may still use it after the function has returned
	run := func(tx *dynsec.Tx) error {
		done = nil // from an earlier attempt
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
	if disconnects, err = c.change(ctx, &request{apply: run}); err != nil {
		return nil, nil, err
	}
	return done, disconnects, nil
}

// hashPasswords replaces the passwords that commands set by hashes, so that the writer does
// not hash. Commands with passwords that are too short will fail.
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
