package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/reach"
)

// Errors of JetStream that are permanent for a message.
const (
	codeMessageTooLarge = 10054
	codeHeaderTooLarge  = 10097
)

// maxAnswers is how many acknowledgements are buffered, more than a batch has messages. Others
// are treated as lost.
const maxAnswers = 12_000

const statusNoResponders = "503"

// openStreams subscribes to acknowledgements. A trial also checks that JetStream is available.
func (c *connector) openStreams(ctx context.Context) error {
	inbox, answers := c.conn.NewInbox(), make(chan *natsgo.Msg, maxAnswers)
	_, err := c.conn.ChanSubscribe(inbox+".*", answers)
	if err == nil {
		err = c.conn.FlushWithContext(ctx)
	}
	if err == nil {
		err = c.refusals.await(ctx, c.conn)
	}
	switch {
	case err != nil:
		return reach.Explained(err, "no inbox for the answers of streams: "+reach.Cause(err))
	case len(c.refusals.take()) > 0:
		return errors.New("the user may not subscribe to _INBOX.>, where the answers of streams come to: allow it at the server")
	}
	c.answers, c.inbox = answers, inbox+"."
	if !c.trial {
		return nil
	}
	_, err = c.conn.RequestWithContext(ctx, "$JS.API.INFO", nil)
	if errors.Is(err, natsgo.ErrNoResponders) {
		return reach.Explained(err, "the server has no JetStream, at least not for this user: switch it on at the server, or off here")
	}
	return nil // a user without permission for this request may still be allowed to publish
}

// reply returns the prefix of the reply subjects of the batch.
func (c *connector) reply() string { return c.inbox + strconv.FormatUint(c.round, 36) + "-" }

// await receives the acknowledgements of the messages that were sent and not refused. It returns
// the first reason why a message was not stored, or an error if acknowledgements are missing.
func (c *connector) await(ctx context.Context, messages []*natsgo.Msg, results []bridges.Result) (first error) {
	waiting := 0
	for i, m := range messages {
		if m != nil && results[i] == (bridges.Result{}) {
			waiting++
		}
	}
	for waiting > 0 {
		var answer *natsgo.Msg
		select {
		case answer = <-c.answers:
		case <-c.closed:
			return c.lost(natsgo.ErrConnectionClosed)
		case <-ctx.Done():
			return c.lost(ctx.Err())
		}
		index, ok := strings.CutPrefix(answer.Subject, c.reply())
		i, err := strconv.Atoi(index)
		if !ok || err != nil || i < 0 || i >= len(results) || results[i] != (bridges.Result{}) {
			continue // belongs to an earlier batch
		}
		waiting--
		var reason error
		results[i], reason = outcome(answer, messages[i].Subject)
		first = cmp.Or(first, reason)
	}
	return first
}

// outcome evaluates an acknowledgement. The error is the reason why the message must be sent
// again.
func outcome(answer *natsgo.Msg, subject string) (bridges.Result, error) {
	if len(answer.Data) == 0 && answer.Header.Get("Status") == statusNoResponders {
		return pending(fmt.Errorf("no stream takes the subject %q: make one that does, or switch jetStream off", subject))
	}
	var ack struct {
		Stream string `json:"stream"`
		Error  *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(answer.Data, &ack); {
	case err != nil || ack.Error == nil && ack.Stream == "":
		return pending(fmt.Errorf("who answers for the subject %q is no stream", subject))
	case ack.Error == nil:
		return bridges.Result{State: bridges.Delivered}, nil
	case ack.Error.Code == codeMessageTooLarge || ack.Error.Code == codeHeaderTooLarge:
		return bridges.Result{State: bridges.Rejected, Reason: fmt.Sprintf("the stream does not take it (error %d of JetStream)", ack.Error.Code),
			Answer: reach.Answer(errors.New(ack.Error.Description))}, nil
	default:
		return pending(reach.Explained(errors.New(ack.Error.Description),
			fmt.Sprintf("the stream of the subject %q does not take messages (error %d of JetStream)", subject, ack.Error.Code)))
	}
}

func pending(err error) (bridges.Result, error) {
	r := bridges.Result{State: bridges.Pending, Reason: err.Error()}
	if said, ok := errors.AsType[bridges.Answered](err); ok {
		r.Answer = said.Answer()
	}
	return r, err
}
