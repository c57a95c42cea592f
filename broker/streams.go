package broker

import (
	"context"
	"encoding/json"
)

// Streams copy, transform, store and replay the messages of topics.
type Streams interface {
	ListStreams(ctx context.Context, o ListOptions[Stream]) (Page[Stream], error)
	GetStream(ctx context.Context, streamname string) (Stream, error)
	CreateStream(ctx context.Context, s StreamSpec) error
	ModifyStream(ctx context.Context, s StreamSpec, replace bool) error
	DeleteStream(ctx context.Context, streamname string) error
	// CountStreamMessages returns how much the stream stores.
	CountStreamMessages(ctx context.Context, streamname string) (StreamCount, error)
	// ClearStreamMessages deletes the messages received between gte and lte, inclusive,
	// in Unix seconds; nil is open.
	ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error
	// ReplayStream starts a replay and returns; a stream has one at a time.
	ReplayStream(ctx context.Context, r StreamReplay) error
	// StopStreamReplay stops the current replay.
	StopStreamReplay(ctx context.Context, streamname string) error
}

// Stream is a stream's record. TTL is in seconds, 0 means for ever.
type Stream struct {
	StreamName      string          `json:"streamname" doc:"Name of the stream. It identifies the stream." example:"speed"`
	SourceTopic     string          `json:"sourcetopic" doc:"Topic filter of the messages that the stream receives." example:"plant/+/raw"`
	TargetTopic     string          `json:"targettopic" doc:"Topic to which results are published; empty to publish nothing." example:"plant/speed"`
	TargetQoS       int             `json:"targetqos" doc:"QoS of the published results: 0, 1, 2, or -1 for the QoS of the message." example:"-1"`
	TTL             int64           `json:"ttl" doc:"Seconds for which stored messages are kept at least; 0 keeps them without limit." example:"86400"`
	Key             string          `json:"key" doc:"A value that is stored and returned, without effect." example:"\"\""`
	TextName        string          `json:"textname" doc:"Display name; may be empty." example:"Speed"`
	TextDescription string          `json:"textdescription" doc:"Description; may be empty." example:"Maximum speed of each minute"`
	Active          bool            `json:"active" doc:"True if the stream receives messages." example:"true"`
	Process         bool            `json:"process" doc:"True if the query is applied." example:"true"`
	Persist         bool            `json:"persist" doc:"True if results are stored." example:"true"`
	Replaying       bool            `json:"replaying" doc:"True while a replay runs." example:"false"`
	Query           json.RawMessage `json:"query" doc:"The query that transforms payloads; see the manual, Streams." example:"{\"select\":[{\"source\":\"[speed]\",\"target\":\"[speed]\"}]}"`

	Error  string          `json:"error,omitempty" doc:"Why the stream receives no messages at present; absent if it does. An extension." example:"-"`
	Replay *StreamProgress `json:"replay,omitempty" doc:"Progress of the replay; absent if none runs. An extension." example:"-"`
	Stats  *StreamStats    `json:"stats,omitempty" doc:"Counters of the messages since the service started or the stream was created. An extension."`
}

// StreamProgress is the progress of a replay, in messages. StartedAt is in epoch
// milliseconds. Total is an estimate if messages expire in the meantime.
type StreamProgress struct {
	ReplayTopic string  `json:"replaytopic" doc:"Topic to which messages are published." example:"again"`
	Sent        int64   `json:"sent" doc:"Number of messages that were published." example:"120"`
	Total       int64   `json:"total" doc:"Number of messages in the replay; an estimate if messages expire meanwhile." example:"500"`
	StartedAt   int64   `json:"startedAt" doc:"Start of the replay, in epoch milliseconds." example:"1769860800000"`
	Speed       float64 `json:"speed" doc:"Factor of the original pace; 0 is as fast as possible." example:"10"`
	Reverse     bool    `json:"reverse" doc:"True if the newest message is replayed first." example:"false"`
}

// StreamStats counts a stream's messages since the service started or the stream was
// created. Messages and Bytes are what it stores now, Evicted what was deleted to stay
// within max_bytes, Expired what became older than ttl allows.
type StreamStats struct {
	Received    int64 `json:"received" doc:"Messages received on the source topic." example:"1500"`
	Republished int64 `json:"republished" doc:"Results published to the target topic." example:"1480"`
	Persisted   int64 `json:"persisted" doc:"Results stored." example:"1480"`
	Replayed    int64 `json:"replayed" doc:"Messages published by replays." example:"120"`
	Filtered    int64 `json:"filtered" doc:"Messages excluded by the condition where of the query." example:"15"`
	Invalid     int64 `json:"invalid" doc:"Messages that are not JSON, or lack what the query needs." example:"5"`
	Dropped     int64 `json:"dropped" doc:"Messages lost because the stream fell behind, or the broker or disk did not accept them." example:"0"`
	Evicted     int64 `json:"evicted" doc:"Stored messages deleted to stay within streams.max_bytes or streams.max_stream_bytes." example:"0"`
	Expired     int64 `json:"expired" doc:"Stored messages deleted because they were older than ttl." example:"0"`
	Messages    int64 `json:"messages" doc:"Number of messages stored now." example:"1480"`
	Bytes       int64 `json:"bytes" doc:"Size of the messages stored now, in bytes." example:"59200"`
}

// StreamCount is how much a stream stores.
type StreamCount struct {
	StreamName string `json:"streamname" doc:"Name of the stream." example:"speed"`
	Count      int64  `json:"count" doc:"Number of messages stored." example:"1480"`
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

// StreamReplay describes a replay of a stream. GTE and LTE are Unix seconds, nil if
// open. Limit -1 means all. Speed 1 is the original speed, 0 as fast as possible.
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

// ListStreams returns Unsupported.
func (NoStreams) ListStreams(context.Context, ListOptions[Stream]) (Page[Stream], error) {
	return Page[Stream]{}, NotSupported("listStreams", CapStreams)
}

// GetStream returns Unsupported.
func (NoStreams) GetStream(context.Context, string) (Stream, error) {
	return Stream{}, NotSupported("getStream", CapStreams)
}

// CreateStream returns Unsupported.
func (NoStreams) CreateStream(context.Context, StreamSpec) error {
	return NotSupported("createStream", CapStreams)
}

// ModifyStream returns Unsupported.
func (NoStreams) ModifyStream(context.Context, StreamSpec, bool) error {
	return NotSupported("modifyStream", CapStreams)
}

// DeleteStream returns Unsupported.
func (NoStreams) DeleteStream(context.Context, string) error {
	return NotSupported("deleteStream", CapStreams)
}

// CountStreamMessages returns Unsupported.
func (NoStreams) CountStreamMessages(context.Context, string) (StreamCount, error) {
	return StreamCount{}, NotSupported("countStreamMessages", CapStreams)
}

// ClearStreamMessages returns Unsupported.
func (NoStreams) ClearStreamMessages(context.Context, string, *float64, *float64) error {
	return NotSupported("clearStreamMessages", CapStreams)
}

// ReplayStream returns Unsupported.
func (NoStreams) ReplayStream(context.Context, StreamReplay) error {
	return NotSupported("replayStream", CapStreams)
}

// StopStreamReplay returns Unsupported.
func (NoStreams) StopStreamReplay(context.Context, string) error {
	return NotSupported("stopStreamReplay", CapStreams)
}
