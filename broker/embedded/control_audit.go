package embedded

import (
	"errors"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/engine"
)

// errNotAudited is the response to a command that is not executed because it cannot be recorded.
const errNotAudited = "Audit log cannot be written"

// audited handles a request between the two parts of its record. handle returns the response,
// nil if there was none in time.
func (b *Broker) audited(r *engine.Request, handle func() []byte) []byte {
	answer, end := b.begun(r, handle)
	end()
	return answer
}

// begun handles a request after the first part of its record. The second one is that of end.
func (b *Broker) begun(r *engine.Request, handle func() []byte) (answer []byte, end func()) {
	if b.config.ControlAudit == nil {
		return handle(), func() {}
	}
	commands, at := control.Changes(r.Topic, r.Payload)
	if len(commands) == 0 {
		return handle(), func() {}
	}
	client := r.Client()
	record, err := b.config.ControlAudit(broker.ControlRequest{Topic: r.Topic, Username: client.Username, ClientID: client.ClientID,
		Address: client.Address, Commands: commands})
	if err != nil {
		b.log.Warn("a control request was refused, as it cannot be recorded", "topic", r.Topic, "error", err)
		reason := errNotAudited
		if e, ok := errors.AsType[*broker.Error](err); ok {
			reason = e.Msg
		}
		return control.Refuse(r.Payload, reason), func() {}
	}
	answer = handle()
	return answer, func() { record(outcomes(r.Topic, answer, at)) }
}

// outcomes returns the outcome of each command with one of the numbers; nil without a response.
// The text of an error is returned for dynamic security only, whose texts are fixed.
func outcomes(topic string, answer []byte, at []int) []broker.ControlOutcome {
	responses, err := dynsec.DecodeResponses(answer)
	if err != nil {
		return nil
	}
	list := make([]broker.ControlOutcome, len(at))
	for k, i := range at {
		if i >= len(responses) {
			return nil
		}
		list[k].Failed = responses[i].Error != ""
		if topic == dynsec.Topic {
			list[k].Reason = responses[i].Error
		}
	}
	return list
}
