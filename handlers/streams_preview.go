package handlers

import (
	"context"
	"encoding/json"
	"fmt"

	"signalbox/broker"
)

// maxSamples bounds the messages of a preview.
const maxSamples = 100

// PreviewStreamRequest has a definition of a stream, and messages to process by it.
type PreviewStreamRequest struct {
	BrokerPath
	Body struct {
		StreamName  string          `json:"streamname" doc:"Name of the stream that the definition would replace; default empty, for a new one." example:"speed"`
		SourceTopic string          `json:"sourcetopic" required:"true" doc:"Topic filter of the messages that the stream would receive; not below $." example:"plant/+/raw"`
		TargetTopic *string         `json:"targettopic" doc:"Topic to which results would be published; not below $. Default empty, which publishes nothing." example:"plant/speed"`
		TargetQoS   *int            `json:"targetqos" min:"-1" max:"2" doc:"QoS of the published results: 0, 1, 2, or -1 for the QoS of the message. Default -1." example:"-1"`
		Process     *bool           `json:"process" doc:"True applies the query; default true if there is a query." example:"true"`
		Persist     *bool           `json:"persist" doc:"True stores results; default false." example:"true"`
		Query       json.RawMessage `json:"query" object:"true" doc:"The query that transforms payloads; see the manual, Streams. Default none." example:"{\"select\":[{\"source\":\"[speed]\",\"target\":\"[speed]\"}]}"`
		Messages    []SampleMessage `json:"messages" doc:"Messages in the order in which the stream would receive them, at most 100; default none, which only checks the definition."`
	}

	messages []broker.SampleMessage
}

// SampleMessage is a message for a preview.
type SampleMessage struct {
	Topic    string `json:"topic" required:"true" minlen:"1" doc:"Topic of the message." example:"plant/7/raw"`
	Payload  string `json:"payload" nul:"true" doc:"Text, or base64 if encoding is base64; default empty." example:"{\"speed\":2.5}"`
	Encoding string `json:"encoding" enum:"text|base64" doc:"How payload is written; default text." example:"text"`
	QoS      int    `json:"qos" min:"0" max:"2" doc:"QoS of the message; default 0." example:"1"`
	At       int64  `json:"at" min:"0" format:"epoch-ms" doc:"Time of arrival, in epoch milliseconds; default 0, which is the present." example:"1769860800000"`
}

// Validate checks the messages and decodes base64.
func (r *PreviewStreamRequest) Validate() (bad []FieldError) {
	if len(r.Body.Messages) > maxSamples {
		return []FieldError{{"body.messages", fmt.Sprintf("must have at most %d entries", maxSamples)}}
	}
	for i, m := range r.Body.Messages {
		at := fmt.Sprintf("body.messages[%d]", i)
		if m.Topic != "" && !broker.ValidTopic(m.Topic) {
			bad = append(bad, FieldError{at + ".topic", notATopic})
		}
		payload := []byte(m.Payload)
		if m.Encoding == broker.EncodingBase64 {
			bad = append(bad, fromBase64(at+".payload", m.Payload, &payload)...)
		}
		r.messages = append(r.messages, broker.SampleMessage{Topic: m.Topic, Payload: payload, QoS: m.QoS, At: m.At})
	}
	return bad
}

// StreamOutcomes are the outcomes of a preview.
type StreamOutcomes struct {
	Outcomes []broker.StreamOutcome `json:"outcomes" doc:"What the stream would do with each message, in their order."`
}

// PreviewStream returns what a stream would do with messages.
func (a *API) PreviewStream(ctx context.Context, r *PreviewStreamRequest) (StreamOutcomes, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return StreamOutcomes{}, err
	}
	now := a.Now().UnixMilli()
	for i := range r.messages {
		if m := &r.messages[i]; m.At == 0 {
			m.At = now
		}
	}
	d := &r.Body
	outcomes, err := b.PreviewStream(ctx, broker.StreamPreview{Messages: r.messages, StreamSpec: broker.StreamSpec{
		StreamName: d.StreamName, SourceTopic: &d.SourceTopic, TargetTopic: d.TargetTopic, TargetQoS: d.TargetQoS,
		Process: d.Process, Persist: d.Persist, Query: d.Query,
	}})
	return StreamOutcomes{outcomes}, err
}
