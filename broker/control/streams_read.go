package control

import (
	"bytes"
	"encoding/json"
	"errors"

	"signalbox/broker"
)

// StreamList is the decoded response to listStreams: the number of all streams and the
// requested page, with only the names set unless the command was verbose.
type StreamList struct {
	Total   int
	Streams []broker.Stream
}

// UnmarshalJSON accepts names and records. Faults beside the records do not affect
// them.
func (l *StreamList) UnmarshalJSON(b []byte) error {
	var list struct {
		Streams json.RawMessage `json:"streams"`
	}
	var total struct {
		TotalCount int `json:"totalCount"`
	}
	if err := errors.Join(decodeTolerant(b, &list), decodeTolerant(b, &total)); err != nil {
		return err
	}
	var entries []json.RawMessage
	if len(list.Streams) > 0 {
		if err := decodeTolerant(list.Streams, &entries); err != nil {
			return err
		}
	}
	l.Total, l.Streams = max(total.TotalCount, len(entries)), make([]broker.Stream, len(entries))
	for i, raw := range entries {
		if json.Unmarshal(raw, &l.Streams[i].StreamName) == nil {
			continue
		}
		if err := readStream(raw, &l.Streams[i]); err != nil {
			return err
		}
	}
	return nil
}

// StreamRecord is the decoded response to getStream.
type StreamRecord struct{ broker.Stream }

// UnmarshalJSON accepts the record itself, and one in the member stream.
func (r *StreamRecord) UnmarshalJSON(b []byte) error {
	var inner struct {
		Stream json.RawMessage `json:"stream"`
	}
	if err := decodeTolerant(b, &inner); err != nil {
		return err
	}
	if bytes.HasPrefix(inner.Stream, []byte("{")) {
		b = inner.Stream
	}
	return readStream(b, &r.Stream)
}

// readStream decodes a record. Its query stays unchanged, and is never nil.
func readStream(raw []byte, s *broker.Stream) error {
	var r struct {
		Query json.RawMessage `json:"query"`
	}
	if err := decodeTolerant(raw, &r); err != nil {
		return err
	}
	if err := decodeTolerant(raw, s); err != nil {
		return err
	}
	if s.Query = r.Query; !bytes.HasPrefix(r.Query, []byte("{")) {
		s.Query = json.RawMessage("{}")
	}
	return nil
}

// StreamCount is the decoded response to getStreamMessageCount.
type StreamCount struct{ broker.StreamCount }
