package handlers

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"signalbox/broker"
)

// ListStreamsRequest asks for streams.
type ListStreamsRequest struct {
	BrokerPath
	Paging
	Verbose bool `query:"verbose" default:"true" doc:"False lists only names."`
}

// ListStreams lists the streams of a broker, in order of their names.
func (a *API) ListStreams(ctx context.Context, r *ListStreamsRequest) (List[broker.Stream], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Stream]{}, err
	}
	page, err := b.ListStreams(ctx, broker.ListOptions[broker.Stream]{Offset: r.Offset, Count: r.Count, NamesOnly: !r.Verbose})
	return listed(page, r.Verbose, func(s broker.Stream) string { return s.StreamName }), err
}

// StreamBody describes a stream. Both spellings of the topics are taken.
type StreamBody struct {
	StreamName       string          `json:"streamname" required:"true" minlen:"1"`
	SourceTopic      *string         `json:"sourceTopic"`
	SourceTopicLower *string         `json:"sourcetopic"`
	TargetTopic      *string         `json:"targetTopic"`
	TargetTopicLower *string         `json:"targettopic"`
	TargetQoS        *int            `json:"targetqos" min:"-1" max:"2" doc:"-1 keeps the QoS of the message."`
	TTL              *int64          `json:"ttl" min:"0" doc:"Seconds for which messages are kept at least; 0 for ever."`
	Key              *string         `json:"key"`
	TextName         *string         `json:"textname"`
	TextDescription  *string         `json:"textdescription"`
	Active           *bool           `json:"active"`
	Process          *bool           `json:"process"`
	Persist          *bool           `json:"persist"`
	Query            json.RawMessage `json:"query" object:"true"`
}

func (b StreamBody) spec() broker.StreamSpec {
	return broker.StreamSpec{
		StreamName: b.StreamName, SourceTopic: either(b.SourceTopic, b.SourceTopicLower),
		TargetTopic: either(b.TargetTopic, b.TargetTopicLower), TargetQoS: b.TargetQoS, TTL: b.TTL, Key: b.Key,
		TextName: b.TextName, TextDescription: b.TextDescription,
		Active: b.Active, Process: b.Process, Persist: b.Persist, Query: b.Query,
	}
}

func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// CreateStreamRequest asks for a new stream.
type CreateStreamRequest struct {
	BrokerPath
	Body StreamBody
}

// Validate asks for a source topic in either spelling.
func (r *CreateStreamRequest) Validate() []FieldError {
	if source := either(r.Body.SourceTopic, r.Body.SourceTopicLower); source == nil || *source == "" {
		return []FieldError{{"body.sourceTopic", "is required"}}
	}
	return nil
}

// CreateStream creates a stream.
func (a *API) CreateStream(ctx context.Context, r *CreateStreamRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.CreateStream(ctx, r.Body.spec())
}

// ModifyStreamRequest asks for a change of a stream.
type ModifyStreamRequest struct {
	BrokerPath
	Body struct {
		StreamBody
		Replace bool `json:"replace" doc:"True makes the body the whole definition; false changes what is given."`
	}
}

// ModifyStream changes a stream.
func (a *API) ModifyStream(ctx context.Context, r *ModifyStreamRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.ModifyStream(ctx, r.Body.spec(), r.Body.Replace)
}

// DeleteStreamRequest names a stream.
type DeleteStreamRequest struct {
	BrokerPath
	StreamName string `query:"streamname" required:"true" minlen:"1"`
}

// DeleteStream deletes a stream and its messages.
func (a *API) DeleteStream(ctx context.Context, r *DeleteStreamRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DeleteStream(ctx, r.StreamName)
}

// ClearStreamMessagesRequest names a stream.
type ClearStreamMessagesRequest struct {
	BrokerPath
	StreamName string `query:"streamname" required:"true" minlen:"1"`
}

// ClearStreamMessages deletes the messages that a stream keeps.
func (a *API) ClearStreamMessages(ctx context.Context, r *ClearStreamMessagesRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.ClearStreamMessages(ctx, r.StreamName, nil, nil)
}

// ReplayStreamRequest asks for a stream's messages once more.
type ReplayStreamRequest struct {
	BrokerPath
	Body struct {
		StreamName       string      `json:"streamname" required:"true" minlen:"1"`
		ReplayTopic      *string     `json:"replayTopic"`
		ReplayTopicLower *string     `json:"replaytopic"`
		GTE              UnixSeconds `json:"gte" doc:"Earliest time, Unix seconds as a decimal string or a number; empty or absent is open."`
		LTE              UnixSeconds `json:"lte" doc:"Latest time, as gte."`
		Reverse          bool        `json:"reverse" doc:"True replays the newest message first."`
		Limit            *int64      `json:"limit" min:"-1" doc:"Largest number of messages; -1 or absent is all."`
		Speed            *float64    `json:"speed" min:"0" doc:"Factor of the original pace; 1 or absent is the original, 0 as fast as possible."`
	}
}

// UnixSeconds is a time as a decimal string or a number.
type UnixSeconds struct{ value *float64 }

// UnmarshalJSON takes "", a decimal string, a number or null.
func (u *UnixSeconds) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "" || s == "null" {
		return nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return &FieldTypeError{Want: "Unix seconds, as a decimal string or a number"}
	}
	u.value = &v
	return nil
}

// OneOf gives the shapes for the document.
func (UnixSeconds) OneOf() []any { return []any{"", 0.0} }

// FieldTypeError tells the binder what a member should have been.
type FieldTypeError struct{ Want string }

// Error says what was wanted.
func (e *FieldTypeError) Error() string { return "must be " + e.Want }

// Validate asks for a topic to replay to.
func (r *ReplayStreamRequest) Validate() []FieldError {
	if topic := either(r.Body.ReplayTopic, r.Body.ReplayTopicLower); topic == nil || *topic == "" {
		return []FieldError{{"body.replayTopic", "is required"}}
	}
	return nil
}

// ReplayStream starts to publish a stream's messages once more.
func (a *API) ReplayStream(ctx context.Context, r *ReplayStreamRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	replay := broker.StreamReplay{
		StreamName: r.Body.StreamName, ReplayTopic: *either(r.Body.ReplayTopic, r.Body.ReplayTopicLower),
		GTE: r.Body.GTE.value, LTE: r.Body.LTE.value, Reverse: r.Body.Reverse, Limit: -1, Speed: 1,
	}
	if r.Body.Limit != nil {
		replay.Limit = *r.Body.Limit
	}
	if r.Body.Speed != nil {
		replay.Speed = *r.Body.Speed
	}
	return b.ReplayStream(ctx, replay)
}
