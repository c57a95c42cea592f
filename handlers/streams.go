package handlers

import (
	"context"
	"encoding/json"
	"errors"

	"signalbox/broker"
)

// ListStreamsRequest asks for streams.
type ListStreamsRequest struct {
	BrokerPath
	Paging
	Verbose bool `query:"verbose" default:"true" doc:"False returns only the names of the entries."`
	Rates   bool `query:"rates" default:"false" doc:"True returns the messages per second that each stream receives, which are measured for 0.9 seconds that the response takes. A broker whose own plugin has the streams does not report them."`
}

// ListStreams lists the streams of a broker, ordered by name.
func (a *API) ListStreams(ctx context.Context, r *ListStreamsRequest) (List[broker.Stream], error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return List[broker.Stream]{}, err
	}
	page, err := b.ListStreams(ctx, broker.ListOptions[broker.Stream]{Offset: r.Offset, Count: r.Count, NamesOnly: !r.Verbose, Rates: r.Rates && r.Verbose})
	return listed(page, r.Verbose, func(s broker.Stream) string { return s.StreamName }), err
}

// StreamPath names a stream of a broker.
type StreamPath struct {
	BrokerPath
	StreamName string `query:"streamname" required:"true" minlen:"1" doc:"Name of the stream."`
}

// GetStreamRequest names a stream.
type GetStreamRequest struct{ StreamPath }

// GetStream returns a stream's record.
func (a *API) GetStream(ctx context.Context, r *GetStreamRequest) (broker.Stream, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return broker.Stream{}, err
	}
	return b.GetStream(ctx, r.StreamName)
}

// StreamBody describes a stream. Both spellings of the topics are accepted.
type StreamBody struct {
	StreamName       string          `json:"streamname" required:"true" minlen:"1" doc:"Name of the stream. It identifies the stream and cannot be changed." example:"speed"`
	SourceTopic      *string         `json:"sourceTopic" doc:"Topic filter of the messages that the stream receives; not below $. Required to create a stream, in this or the other spelling." example:"-"`
	SourceTopicLower *string         `json:"sourcetopic" doc:"As sourceTopic." example:"plant/+/raw"`
	TargetTopic      *string         `json:"targetTopic" doc:"Topic to which results are published; not below $. Default empty, which publishes nothing." example:"-"`
	TargetTopicLower *string         `json:"targettopic" doc:"As targetTopic." example:"plant/speed"`
	TargetQoS        *int            `json:"targetqos" min:"-1" max:"2" doc:"QoS of the published results: 0, 1, 2, or -1 for the QoS of the message. Default -1." example:"-1"`
	TTL              *int64          `json:"ttl" min:"0" doc:"Seconds for which stored messages are kept at least; default 0, which keeps them without limit." example:"86400"`
	Key              *string         `json:"key" doc:"A value that is stored and returned, without effect; default empty." example:"-"`
	TextName         *string         `json:"textname" doc:"Display name; default empty." example:"Speed"`
	TextDescription  *string         `json:"textdescription" doc:"Description; default empty." example:"Maximum speed of each minute"`
	Active           *bool           `json:"active" doc:"True receives messages; default true." example:"true"`
	Process          *bool           `json:"process" doc:"True applies the query; default true if there is a query." example:"true"`
	Persist          *bool           `json:"persist" doc:"True stores results, which a replay needs; default false." example:"true"`
	Query            json.RawMessage `json:"query" object:"true" doc:"The query that transforms payloads; see the manual, Streams. Default none." example:"{\"select\":[{\"source\":\"[speed]\",\"target\":\"[speed]\"}]}"`
}

func (b StreamBody) spec() broker.StreamSpec {
	return broker.StreamSpec{
		StreamName: b.StreamName, SourceTopic: either(b.SourceTopic, b.SourceTopicLower),
		TargetTopic: either(b.TargetTopic, b.TargetTopicLower), TargetQoS: b.TargetQoS, TTL: b.TTL, Key: b.Key,
		TextName: b.TextName, TextDescription: b.TextDescription,
		Active: b.Active, Process: b.Process, Persist: b.Persist, Query: b.Query,
	}
}

// contradictions returns the topics that are given in both spellings with different
// values.
func (b StreamBody) contradictions() []FieldError {
	return append(contradiction("sourcetopic", b.SourceTopicLower, "sourceTopic", b.SourceTopic),
		contradiction("targettopic", b.TargetTopicLower, "targetTopic", b.TargetTopic)...)
}

// spelt returns an error that names the topics as the caller spelt them; an absent one
// is named as in the specification of the operation.
func (b StreamBody) spelt(err error, source, target string) error {
	return renamed(err, map[string]string{
		"sourcetopic": spelling("sourcetopic", b.SourceTopicLower, "sourceTopic", b.SourceTopic, source),
		"targettopic": spelling("targettopic", b.TargetTopicLower, "targetTopic", b.TargetTopic, target),
	})
}

// What follows is for members that are accepted in two spellings.

func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

func contradiction(lowerName string, lower *string, upperName string, upper *string) []FieldError {
	if lower == nil || upper == nil || *lower == *upper {
		return nil
	}
	return []FieldError{{"body." + lowerName, "contradicts " + upperName + "; give one of them"}}
}

func spelling(lowerName string, lower *string, upperName string, upper *string, otherwise string) string {
	switch {
	case upper != nil:
		return upperName
	case lower != nil:
		return lowerName
	}
	return otherwise
}

// renamed returns a broker's error with other names of the fields.
func renamed(err error, names map[string]string) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	with := *e
	with.Fields = make([]broker.Field, len(e.Fields))
	for i, f := range e.Fields {
		if name, ok := names[f.Path]; ok {
			f.Path = name
		}
		with.Fields[i] = f
	}
	return &with
}

// CreateStreamRequest asks for a new stream.
type CreateStreamRequest struct {
	BrokerPath
	Body StreamBody
}

// Validate requires a source topic in either spelling.
func (r *CreateStreamRequest) Validate() []FieldError {
	bad := r.Body.contradictions()
	if source := either(r.Body.SourceTopic, r.Body.SourceTopicLower); source == nil || *source == "" {
		name := spelling("sourcetopic", r.Body.SourceTopicLower, "sourceTopic", r.Body.SourceTopic, "sourceTopic")
		bad = append(bad, FieldError{"body." + name, "is required"})
	}
	return bad
}

// CreateStream creates a stream.
func (a *API) CreateStream(ctx context.Context, r *CreateStreamRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return r.Body.spelt(b.CreateStream(ctx, r.Body.spec()), "sourceTopic", "targetTopic")
}

// ModifyStreamRequest asks for a change of a stream.
type ModifyStreamRequest struct {
	BrokerPath
	Body struct {
		StreamBody
		Replace bool `json:"replace" doc:"True makes the body the whole definition, with defaults for absent members. False (default) changes the members that are present." example:"false"`
	}
}

// Validate refuses contradictions.
func (r *ModifyStreamRequest) Validate() []FieldError { return r.Body.contradictions() }

// ModifyStream changes a stream.
func (a *API) ModifyStream(ctx context.Context, r *ModifyStreamRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return r.Body.spelt(b.ModifyStream(ctx, r.Body.spec(), r.Body.Replace), "sourcetopic", "targettopic")
}

// DeleteStreamRequest names a stream.
type DeleteStreamRequest struct{ StreamPath }

// DeleteStream deletes a stream and its messages.
func (a *API) DeleteStream(ctx context.Context, r *DeleteStreamRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DeleteStream(ctx, r.StreamName)
}
