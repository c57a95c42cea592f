package handlers

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"signalbox/broker"
)

// CountStreamMessagesRequest names a stream.
type CountStreamMessagesRequest struct{ StreamPath }

// CountStreamMessages returns the number of messages that a stream stores.
func (a *API) CountStreamMessages(ctx context.Context, r *CountStreamMessagesRequest) (broker.StreamCount, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return broker.StreamCount{}, err
	}
	return b.CountStreamMessages(ctx, r.StreamName)
}

// ClearStreamMessagesRequest names a stream.
type ClearStreamMessagesRequest struct{ StreamPath }

// ClearStreamMessages deletes the stored messages of a stream.
func (a *API) ClearStreamMessages(ctx context.Context, r *ClearStreamMessagesRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.ClearStreamMessages(ctx, r.StreamName, nil, nil)
}

// ClearStreamRangeRequest names a stream and a period.
type ClearStreamRangeRequest struct {
	StreamPath
	GTE string `query:"gte" doc:"Earliest time, in Unix seconds; empty or absent is open. At least one of gte and lte is required."`
	LTE string `query:"lte" doc:"Latest time, in Unix seconds; empty or absent is open."`

	gte, lte *float64
}

// Validate parses the times. It requires one of them, so that an incomplete request
// does not delete everything.
func (r *ClearStreamRangeRequest) Validate() (bad []FieldError) {
	if r.gte, r.lte, bad = period(r.GTE, r.LTE); bad == nil && r.gte == nil && r.lte == nil {
		bad = append(bad, FieldError{"query.gte", "is required, unless lte is given"})
	}
	return bad
}

// period parses the ends of a period, nil for an open one.
func period(from, to string) (gte, lte *float64, bad []FieldError) {
	read := func(name, text string) *float64 {
		v, ok := unixSeconds(text)
		if !ok {
			bad = append(bad, FieldError{"query." + name, "must be Unix seconds, a decimal number"})
		}
		return v
	}
	gte, lte = read("gte", from), read("lte", to)
	if bad == nil && gte != nil && lte != nil && *gte > *lte {
		bad = append(bad, FieldError{"query.lte", "must not be less than gte"})
	}
	return gte, lte, bad
}

// GetStreamTimelineRequest names a stream and a period.
type GetStreamTimelineRequest struct {
	StreamPath
	GTE    string `query:"gte" doc:"Earliest time, in Unix seconds; empty or absent is open."`
	LTE    string `query:"lte" doc:"Latest time, in Unix seconds; empty or absent is open."`
	Slices int    `query:"slices" default:"48" min:"1" max:"200" doc:"Number of slices."`

	gte, lte *float64
}

// Validate parses the times.
func (r *GetStreamTimelineRequest) Validate() (bad []FieldError) {
	r.gte, r.lte, bad = period(r.GTE, r.LTE)
	return bad
}

// GetStreamTimeline counts the stored messages of a period in slices of equal length.
func (a *API) GetStreamTimeline(ctx context.Context, r *GetStreamTimelineRequest) (broker.StreamTimeline, error) {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return broker.StreamTimeline{}, err
	}
	return b.StreamTimeline(ctx, r.StreamName, r.gte, r.lte, r.Slices)
}

// ClearStreamRange deletes the stored messages of a period.
func (a *API) ClearStreamRange(ctx context.Context, r *ClearStreamRangeRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.ClearStreamMessages(ctx, r.StreamName, r.gte, r.lte)
}

// ReplayStreamRequest requests a replay of a stream's messages.
type ReplayStreamRequest struct {
	BrokerPath
	Body struct {
		StreamName       string      `json:"streamname" required:"true" minlen:"1" doc:"Name of the stream, which must have persist." example:"speed"`
		ReplayTopic      *string     `json:"replayTopic" doc:"Topic to which the messages are published. Required, in this or the other spelling." example:"again"`
		ReplayTopicLower *string     `json:"replaytopic" doc:"As replayTopic." example:"-"`
		GTE              UnixSeconds `json:"gte" doc:"Earliest time, in Unix seconds as a decimal string or a number; empty or absent is open." example:"\"1769860800\""`
		LTE              UnixSeconds `json:"lte" doc:"Latest time, in Unix seconds as a decimal string or a number; empty or absent is open." example:"\"\""`
		Reverse          bool        `json:"reverse" doc:"True replays the newest message first; default false." example:"false"`
		Limit            *int64      `json:"limit" min:"-1" doc:"Largest number of messages; -1 or absent is all." example:"-1"`
		Speed            ReplaySpeed `json:"speed" doc:"Factor of the original pace: 1 or absent is the original pace, 0 as fast as possible; or one of the words original and fastest." example:"10"`
	}
}

// UnixSeconds is a time as a decimal string or a number.
type UnixSeconds struct{ value *float64 }

// UnmarshalJSON accepts "", a decimal string, a number or null.
func (u *UnixSeconds) UnmarshalJSON(b []byte) error {
	text, ok := textOrNumber(b)
	v, good := unixSeconds(text)
	if !ok || !good {
		return &FieldTypeError{Want: "Unix seconds, as a decimal string or a number"}
	}
	u.value = v
	return nil
}

// OneOf returns the variants for the document.
func (UnixSeconds) OneOf() []any { return []any{"", 0.0} }

// ReplaySpeed is the speed of a replay, as a number or one of two words.
type ReplaySpeed struct{ value *float64 }

// UnmarshalJSON accepts a factor from 0, "original", "fastest" or null.
func (s *ReplaySpeed) UnmarshalJSON(b []byte) error {
	var v float64
	switch text := string(b); text {
	case "null":
		return nil
	case `"original"`:
		v = 1
	case `"fastest"`:
		v = 0
	default:
		if json.Unmarshal(b, &v) != nil || v < 0 {
			return &FieldTypeError{Want: "a number that is not negative, or original or fastest"}
		}
	}
	s.value = &v
	return nil
}

// OneOf returns the variants for the document.
func (ReplaySpeed) OneOf() []any { return []any{0.0, ""} }

// FieldTypeError is the expected type of a member, for the binder.
type FieldTypeError struct{ Want string }

// Error returns the expected type.
func (e *FieldTypeError) Error() string { return "must be " + e.Want }

// textOrNumber returns the content of a JSON string, or a JSON number as it is written;
// "" for null.
func textOrNumber(b []byte) (text string, ok bool) {
	if len(b) > 0 && b[0] != '"' && b[0] != 'n' {
		return string(b), true
	}
	err := json.Unmarshal(b, &text)
	return text, err == nil
}

// unixSeconds parses a decimal number, nil for an empty text. Go's other forms of
// numbers are not accepted.
func unixSeconds(text string) (_ *float64, ok bool) {
	if text == "" {
		return nil, true
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) || strings.Trim(text, "0123456789+-.eE") != "" {
		return nil, false
	}
	return &v, true
}

// Validate requires a topic to replay to.
func (r *ReplayStreamRequest) Validate() []FieldError {
	bad := contradiction("replaytopic", r.Body.ReplayTopicLower, "replayTopic", r.Body.ReplayTopic)
	if topic := either(r.Body.ReplayTopic, r.Body.ReplayTopicLower); topic == nil || *topic == "" {
		bad = append(bad, FieldError{"body." + r.topicName(), "is required"})
	}
	return bad
}

// topicName returns the caller's spelling of the topic to replay to.
func (r *ReplayStreamRequest) topicName() string {
	return spelling("replaytopic", r.Body.ReplayTopicLower, "replayTopic", r.Body.ReplayTopic, "replayTopic")
}

// replay returns the requested replay.
func (r *ReplayStreamRequest) replay() broker.StreamReplay {
	replay := broker.StreamReplay{
		StreamName: r.Body.StreamName, ReplayTopic: *either(r.Body.ReplayTopic, r.Body.ReplayTopicLower),
		GTE: r.Body.GTE.value, LTE: r.Body.LTE.value, Reverse: r.Body.Reverse, Limit: -1, Speed: 1,
	}
	if r.Body.Limit != nil {
		replay.Limit = *r.Body.Limit
	}
	if r.Body.Speed.value != nil {
		replay.Speed = *r.Body.Speed.value
	}
	return replay
}

// ReplayStream starts to replay a stream's messages.
func (a *API) ReplayStream(ctx context.Context, r *ReplayStreamRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return renamed(b.ReplayStream(ctx, r.replay()), map[string]string{"replaytopic": r.topicName()})
}

// StopStreamReplayRequest names a stream.
type StopStreamReplayRequest struct{ StreamPath }

// StopStreamReplay stops the replay of a stream.
func (a *API) StopStreamReplay(ctx context.Context, r *StopStreamReplayRequest) error {
	b, err := a.featured(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.StopStreamReplay(ctx, r.StreamName)
}
