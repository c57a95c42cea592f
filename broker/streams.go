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
	// StreamTimeline counts the messages of the same range in slices of equal length.
	StreamTimeline(ctx context.Context, streamname string, gte, lte *float64, slices int) (StreamTimeline, error)
	// ReplayStream starts a replay and returns; a stream has one at a time.
	ReplayStream(ctx context.Context, r StreamReplay) error
	// StopStreamReplay stops the current replay.
	StopStreamReplay(ctx context.Context, streamname string) error
	// PreviewStream returns what a stream would do with messages, in their order, without
	// storing or publishing anything.
	PreviewStream(ctx context.Context, p StreamPreview) ([]StreamOutcome, error)
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
	Rate   *float64        `json:"rate,omitempty" doc:"Messages received per second, measured for 0.9 seconds. Absent unless rates is true, or if the broker does not report it. An extension." example:"-"`
}

// StreamProgress is the progress of a replay, in messages. StartedAt is in epoch
// milliseconds. Total is an estimate if messages expire in the meantime.
type StreamProgress struct {
	ReplayTopic string  `json:"replaytopic" doc:"Topic to which messages are published." example:"again"`
	Sent        int64   `json:"sent" doc:"Number of messages that were published." example:"120"`
	Total       int64   `json:"total" doc:"Number of messages in the replay; an estimate if messages expire meanwhile." example:"500"`
	StartedAt   int64   `json:"startedAt" format:"epoch-ms" doc:"Start of the replay, in epoch milliseconds." example:"1769860800000"`
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

// StreamTimeline is what a stream stores over time. Counts is nil if there are too many
// messages to count them for each slice.
type StreamTimeline struct {
	StreamName string  `json:"streamname" doc:"Name of the stream." example:"speed"`
	Count      int64   `json:"count" doc:"Number of messages in the range." example:"3"`
	First      int64   `json:"first" format:"epoch-ms" doc:"Time at which the first of them was received, in epoch milliseconds; 0 if there is none." example:"1769860800000"`
	Last       int64   `json:"last" format:"epoch-ms" doc:"Time at which the last of them was received, in epoch milliseconds; 0 if there is none." example:"1769860800999"`
	Step       int64   `json:"step" doc:"Length of a slice, in milliseconds; 0 if there is no message." example:"500"`
	Counts     []int64 `json:"counts,omitempty" doc:"Number of messages in each slice, from first on; absent without messages, and if too many would have to be counted." example:"[2,1]"`
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

// StreamPreview is the definition of a stream that is not stored, and messages for it. A
// stream of the same name is what the definition would replace.
type StreamPreview struct {
	StreamSpec
	Messages []SampleMessage
}

// SampleMessage is a message for a preview. At is its time of arrival, in epoch
// milliseconds.
type SampleMessage struct {
	Topic   string
	Payload []byte
	QoS     int
	At      int64
}

// The results of a preview.
const (
	StreamPassed   = "passed"
	StreamFiltered = "filtered" // by the condition of the query
	StreamInvalid  = "invalid"  // for the query
	StreamIgnored  = "ignored"  // not received, because of its topic
)

// CauseTopic is the cause of StreamIgnored.
const CauseTopic = "topic"

// StreamOutcome is what a stream would do with a message. Cause and Path are why it has no
// result, and which member of the definition is the reason. The others are about the result.
type StreamOutcome struct {
	Result    string `json:"result" doc:"passed if there is a result; otherwise filtered (by the condition), invalid (for the query) or ignored (the source topic does not match)." example:"passed"`
	Cause     string `json:"cause,omitempty" doc:"Why there is no result: topic (the source does not match), notJSON, missing (a selected value), notNumber, overflow (of a sum), tooLong (the result) or conditionFalse. Absent if there is one." example:"-"`
	Path      string `json:"path,omitempty" doc:"Member of the definition that excluded the message, such as query.select[0].source; absent if there is a result, or no such member." example:"-"`
	Payload   string `json:"payload,omitempty" doc:"Payload of the result: text if it is UTF-8, otherwise base64; at most its first 16 KiB." example:"{\"speed\":2.5}"`
	Encoding  string `json:"encoding,omitempty" doc:"base64 if the payload is not text; otherwise absent." example:"-"`
	Truncated bool   `json:"truncated,omitempty" doc:"True if the payload is only the beginning; otherwise absent." example:"-"`
	Size      int    `json:"size" doc:"Size of the whole payload, in bytes; 0 without a result." example:"13"`
	Topic     string `json:"topic,omitempty" doc:"Topic to which the result would be published; absent if it would not." example:"plant/speed"`
	QoS       int    `json:"qos" doc:"QoS with which the result would be published." example:"1"`
	Stored    bool   `json:"stored" doc:"True if the result would be stored." example:"true"`
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

// StreamTimeline returns Unsupported.
func (NoStreams) StreamTimeline(context.Context, string, *float64, *float64, int) (StreamTimeline, error) {
	return StreamTimeline{}, NotSupported("getStreamTimeline", CapStreams)
}

// ReplayStream returns Unsupported.
func (NoStreams) ReplayStream(context.Context, StreamReplay) error {
	return NotSupported("replayStream", CapStreams)
}

// StopStreamReplay returns Unsupported.
func (NoStreams) StopStreamReplay(context.Context, string) error {
	return NotSupported("stopStreamReplay", CapStreams)
}

// PreviewStream returns Unsupported.
func (NoStreams) PreviewStream(context.Context, StreamPreview) ([]StreamOutcome, error) {
	return nil, NotSupported("previewStream", CapStreams)
}
