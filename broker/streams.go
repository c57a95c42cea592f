package broker

import (
	"context"
	"encoding/json"
)

// Streams copies, transforms, keeps and replays the messages of topics.
type Streams interface {
	ListStreams(ctx context.Context, o ListOptions[Stream]) (Page[Stream], error)
	GetStream(ctx context.Context, streamname string) (Stream, error)
	CreateStream(ctx context.Context, s StreamSpec) error
	ModifyStream(ctx context.Context, s StreamSpec, replace bool) error
	DeleteStream(ctx context.Context, streamname string) error
	// CountStreamMessages tells how much the stream keeps.
	CountStreamMessages(ctx context.Context, streamname string) (StreamCount, error)
	// ClearStreamMessages deletes the messages that came at gte or later and at
	// lte or earlier, in Unix seconds; nil is open.
	ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error
	// ReplayStream begins a replay and returns; a stream has one at a time.
	ReplayStream(ctx context.Context, r StreamReplay) error
	// StopStreamReplay ends the replay that runs.
	StopStreamReplay(ctx context.Context, streamname string) error
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

	Error  string          `json:"error,omitempty" doc:"Why the stream takes no messages at present. An extension."`
	Replay *StreamProgress `json:"replay,omitempty" doc:"The replay that runs. An extension."`
	Stats  *StreamStats    `json:"stats,omitempty" doc:"What became of the messages. An extension."`
}

// StreamProgress is how far a replay is, in messages. StartedAt is in epoch
// milliseconds. Total is an estimate where messages expire meanwhile.
type StreamProgress struct {
	ReplayTopic string  `json:"replaytopic"`
	Sent        int64   `json:"sent"`
	Total       int64   `json:"total"`
	StartedAt   int64   `json:"startedAt"`
	Speed       float64 `json:"speed"`
	Reverse     bool    `json:"reverse"`
}

// StreamStats counts what became of a stream's messages since the service
// started or the stream was made. Messages and Bytes are what it keeps now,
// Evicted what went to keep within max_bytes, Expired what became older than
// ttl allows.
type StreamStats struct {
	Received    int64 `json:"received"`
	Republished int64 `json:"republished"`
	Persisted   int64 `json:"persisted"`
	Replayed    int64 `json:"replayed"`
	Filtered    int64 `json:"filtered" doc:"Messages that where kept out."`
	Invalid     int64 `json:"invalid" doc:"Messages that are no JSON, or lack what the query asks for."`
	Dropped     int64 `json:"dropped" doc:"Messages lost because the stream could not keep up with them, or the broker or disk took none."`
	Evicted     int64 `json:"evicted"`
	Expired     int64 `json:"expired"`
	Messages    int64 `json:"messages"`
	Bytes       int64 `json:"bytes"`
}

// StreamCount is how much a stream keeps.
type StreamCount struct {
	StreamName string `json:"streamname"`
	Count      int64  `json:"count"`
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

// GetStream answers Unsupported.
func (NoStreams) GetStream(context.Context, string) (Stream, error) {
	return Stream{}, NotSupported("getStream", CapStreams)
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

// CountStreamMessages answers Unsupported.
func (NoStreams) CountStreamMessages(context.Context, string) (StreamCount, error) {
	return StreamCount{}, NotSupported("countStreamMessages", CapStreams)
}

// ClearStreamMessages answers Unsupported.
func (NoStreams) ClearStreamMessages(context.Context, string, *float64, *float64) error {
	return NotSupported("clearStreamMessages", CapStreams)
}

// ReplayStream answers Unsupported.
func (NoStreams) ReplayStream(context.Context, StreamReplay) error {
	return NotSupported("replayStream", CapStreams)
}

// StopStreamReplay answers Unsupported.
func (NoStreams) StopStreamReplay(context.Context, string) error {
	return NotSupported("stopStreamReplay", CapStreams)
}
