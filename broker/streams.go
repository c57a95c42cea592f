package broker

import (
	"context"
	"encoding/json"
)

// Streams copies, transforms, keeps and replays the messages of topics.
type Streams interface {
	ListStreams(ctx context.Context, o ListOptions[Stream]) (Page[Stream], error)
	CreateStream(ctx context.Context, s StreamSpec) error
	ModifyStream(ctx context.Context, s StreamSpec, replace bool) error
	DeleteStream(ctx context.Context, streamname string) error
	ClearStreamMessages(ctx context.Context, streamname string) error
	ReplayStream(ctx context.Context, r StreamReplay) error
}

// Stream is a stream's record. TTL is in seconds, 0 means for ever.
type Stream struct {
	StreamName      string          `json:"streamname"`
	SourceTopic     string          `json:"sourcetopic"`
	TargetTopic     string          `json:"targettopic"`
	TargetQoS       int             `json:"targetqos"`
	TTL             int64           `json:"ttl"`
	Key             string          `json:"key"`
	TextName        string          `json:"textname"`
	TextDescription string          `json:"textdescription"`
	Active          bool            `json:"active"`
	Process         bool            `json:"process"`
	Persist         bool            `json:"persist"`
	Replaying       bool            `json:"replaying"`
	Query           json.RawMessage `json:"query"`
}

// StreamSpec is the wanted state of a stream; nil members are not given.
type StreamSpec struct {
	StreamName      string
	SourceTopic     *string
	TargetTopic     *string
	TargetQoS       *int
	TTL             *int64
	Key             *string
	TextName        *string
	TextDescription *string
	Active          *bool
	Process         *bool
	Persist         *bool
	Query           json.RawMessage
}

// StreamReplay asks for the messages of a stream once more. GTE and LTE are
// Unix seconds, nil where open. Limit -1 means all. Speed 1 is the original
// pace, 0 as fast as possible.
type StreamReplay struct {
	StreamName  string
	ReplayTopic string
	GTE         *float64
	LTE         *float64
	Reverse     bool
	Limit       int64
	Speed       float64
}

// NoStreams is embedded by a broker without streams.
type NoStreams struct{}

// ListStreams answers Unsupported.
func (NoStreams) ListStreams(context.Context, ListOptions[Stream]) (Page[Stream], error) {
	return Page[Stream]{}, NotSupported("listStreams", CapStreams)
}

// CreateStream answers Unsupported.
func (NoStreams) CreateStream(context.Context, StreamSpec) error {
	return NotSupported("createStream", CapStreams)
}

// ModifyStream answers Unsupported.
func (NoStreams) ModifyStream(context.Context, StreamSpec, bool) error {
	return NotSupported("modifyStream", CapStreams)
}

// DeleteStream answers Unsupported.
func (NoStreams) DeleteStream(context.Context, string) error {
	return NotSupported("deleteStream", CapStreams)
}

// ClearStreamMessages answers Unsupported.
func (NoStreams) ClearStreamMessages(context.Context, string) error {
	return NotSupported("clearStreamMessages", CapStreams)
}

// ReplayStream answers Unsupported.
func (NoStreams) ReplayStream(context.Context, StreamReplay) error {
	return NotSupported("replayStream", CapStreams)
}
