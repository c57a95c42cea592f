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
	"signalbox/broker/bridges/target"
)

// Errors of JetStream that are permanent for a message.
const (
	codeMessageTooLarge = 10054
	codeHeaderTooLarge  = 10097
)

// maxAcks is how many acknowledgements are buffered, more than a batch has messages. Others
// are treated as lost.
const maxAcks = 12_000

const statusNoResponders = "503"

// openStreams subscribes to acknowledgements. A trial also checks that JetStream is available.
func (c *connector) openStreams(ctx context.Context) error {
	inbox, acks := c.conn.NewInbox(), make(chan *natsgo.Msg, maxAcks)
	_, err := c.conn.ChanSubscribe(inbox+".*", acks)
	if err == nil {
		err = c.conn.FlushWithContext(ctx)
	}
	if err == nil {
		err = c.refusals.await(ctx, c.conn)
	}
	switch {
	case err != nil:
		return target.Explain(err, "no inbox for the acknowledgements of streams: "+target.Reason(err))
	case len(c.refusals.take()) > 0:
		return errors.New("the user may not subscribe to _INBOX.>, where the acknowledgements of streams arrive: allow it at the server")
	}
	c.acks, c.inbox = acks, inbox+"."
	if !c.trial {
		return nil
	}
	_, err = c.conn.RequestWithContext(ctx, "$JS.API.INFO", nil)
	if errors.Is(err, natsgo.ErrNoResponders) {
		return target.Explain(err, "the server has no JetStream, at least not for this user: switch it on at the server, or off here")
	}
	return nil // a user without permission for this request may still be allowed to publish
}

// replyPrefix returns the prefix of the reply subjects of the batch.
func (c *connector) replyPrefix() string {
	return c.inbox + strconv.FormatUint(c.batchNumber, 36) + "-"
}

// awaitAcks receives the acknowledgements of the messages that were sent and not refused. It returns
// the first reason why a message was not stored, or an error if acknowledgements are missing.
func (c *connector) awaitAcks(ctx context.Context, messages []*natsgo.Msg, results []bridges.Result) (first error) {
	waiting := 0
	for i, m := range messages {
		if m != nil && results[i] == (bridges.Result{}) {
			waiting++
		}
	}
	for waiting > 0 {
		var msg *natsgo.Msg
		select {
		case msg = <-c.acks:
		case <-c.closed:
			return c.lost(natsgo.ErrConnectionClosed)
		case <-ctx.Done():
			return c.lost(ctx.Err())
		}
		index, ok := strings.CutPrefix(msg.Subject, c.replyPrefix())
		i, err := strconv.Atoi(index)
		if !ok || err != nil || i < 0 || i >= len(results) || results[i] != (bridges.Result{}) {
			continue // belongs to an earlier batch
		}
		waiting--
		var reason error
		results[i], reason = outcome(msg, messages[i].Subject)
		first = cmp.Or(first, reason)
	}
	return first
}

// outcome evaluates an acknowledgement. The error is the reason why the message must be sent
// again.
func outcome(msg *natsgo.Msg, subject string) (bridges.Result, error) {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == statusNoResponders {
		return pending(fmt.Errorf("no stream accepts the subject %q: create one, or switch jetStream off", subject))
	}
	var ack struct {
		Stream string `json:"stream"`
		Error  *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(msg.Data, &ack); {
	case err != nil || ack.Error == nil && ack.Stream == "":
		return pending(fmt.Errorf("the response for the subject %q did not come from a stream", subject))
	case ack.Error == nil:
		return bridges.Result{State: bridges.Delivered}, nil
	case ack.Error.Code == codeMessageTooLarge || ack.Error.Code == codeHeaderTooLarge:
		return bridges.Result{State: bridges.Rejected, Reason: fmt.Sprintf("the stream does not take it (error %d of JetStream)", ack.Error.Code),
			Response: target.Response(errors.New(ack.Error.Description))}, nil
	default:
		return pending(target.Explain(errors.New(ack.Error.Description),
			fmt.Sprintf("the stream of the subject %q does not take messages (error %d of JetStream)", subject, ack.Error.Code)))
	}
}

func pending(err error) (bridges.Result, error) {
	r := bridges.Result{State: bridges.Pending, Reason: err.Error()}
	if answered, ok := errors.AsType[bridges.ResponseError](err); ok {
		r.Response = answered.Response()
	}
	return r, err
}
