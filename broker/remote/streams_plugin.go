package remote

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/pages"
)

// streamPlugin implements the streams of a broker that has them itself.
type streamPlugin struct{ *Broker }

// ListStreams returns a page of the streams, fetched while it is read.
func (p streamPlugin) ListStreams(ctx context.Context, o broker.ListOptions[broker.Stream]) (broker.Page[broker.Stream], error) {
	return pages.List(ctx, pages.Source[broker.Stream]{
		Name: func(s broker.Stream) string { return s.StreamName },
		Fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.Stream, error) {
			var l control.StreamList
			err := p.command(ctx, control.ListStreams(verbose, count, offset), &l)
			return l.Total, l.Streams, err
		},
	}, o)
}

// GetStream returns a stream.
func (p streamPlugin) GetStream(ctx context.Context, streamname string) (broker.Stream, error) {
	var r control.StreamRecord
	err := p.about(ctx, streamname, control.GetStream(streamname), &r)
	return r.Stream, err
}

// CreateStream creates a stream on the broker.
func (p streamPlugin) CreateStream(ctx context.Context, s broker.StreamSpec) error {
	if !utf8.ValidString(s.StreamName) {
		return &broker.Error{Kind: broker.Invalid, Op: "createStream", Msg: "streamname: must be UTF-8",
			Fields: []broker.Field{{Path: "streamname", Msg: "must be UTF-8"}}}
	}
	return p.command(ctx, control.CreateStream(s), nil)
}

// ModifyStream changes a stream on the broker.
func (p streamPlugin) ModifyStream(ctx context.Context, s broker.StreamSpec, replace bool) error {
	return p.about(ctx, s.StreamName, control.ModifyStream(s, replace), nil)
}

// DeleteStream deletes a stream on the broker.
func (p streamPlugin) DeleteStream(ctx context.Context, streamname string) error {
	return p.about(ctx, streamname, control.DeleteStream(streamname), nil)
}

// CountStreamMessages returns the number of messages in a stream.
func (p streamPlugin) CountStreamMessages(ctx context.Context, streamname string) (broker.StreamCount, error) {
	var c control.StreamCount
	err := p.about(ctx, streamname, control.CountStreamMessages(streamname), &c)
	c.StreamName = streamname
	return c.StreamCount, err
}

// ClearStreamMessages deletes messages of a stream.
func (p streamPlugin) ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error {
	return p.about(ctx, streamname, control.ClearStreamMessages(streamname, gte, lte), nil)
}

// ReplayStream starts a replay.
func (p streamPlugin) ReplayStream(ctx context.Context, r broker.StreamReplay) error {
	return p.about(ctx, r.StreamName, control.ReplayStream(r), nil)
}

// StopStreamReplay stops a replay.
func (p streamPlugin) StopStreamReplay(ctx context.Context, streamname string) error {
	return p.about(ctx, streamname, control.StopStreamReplay(streamname), nil)
}

// StreamTimeline returns Unsupported.
func (streamPlugin) StreamTimeline(context.Context, string, *float64, *float64, int) (broker.StreamTimeline, error) {
	return broker.StreamTimeline{}, &broker.Error{Kind: broker.Unsupported, Op: "getStreamTimeline",
		Msg: "the broker processes streams itself, and its plugin has no command that counts messages over time"}
}

// PreviewStream returns Unsupported: only the broker knows what its streams do.
func (streamPlugin) PreviewStream(context.Context, broker.StreamPreview) ([]broker.StreamOutcome, error) {
	return nil, &broker.Error{Kind: broker.Unsupported, Op: "previewStream",
		Msg: "the broker processes streams itself, and its plugin has no command that previews one"}
}

// about sends a command about a stream. A name that is not UTF-8 cannot exist, since JSON
// cannot contain it.
func (p streamPlugin) about(ctx context.Context, streamname string, c control.Command, data any) error {
	if !utf8.ValidString(streamname) {
		return &broker.Error{Kind: broker.NotFound, Op: c.Name, Msg: "Stream not found"}
	}
	return p.command(ctx, c, data)
}

// command sends a command about streams.
func (p streamPlugin) command(ctx context.Context, c control.Command, data any) error {
	err := p.ask(ctx, broker.CapStreams, control.StreamTopic, c, data)
	if e, ok := errors.AsType[*broker.Error](err); ok && e.Kind == broker.Internal && e.Err == nil {
		e.Kind = kindOfRefusal(e.Msg)
	}
	return err
}

// kindOfRefusal returns the kind of an error of a stream command. There are no codes, and few
// texts of other brokers are known; most concern arguments.
func kindOfRefusal(text string) broker.Kind {
	text = strings.ToLower(text)
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("internal"):
		return broker.Internal
	case has("already exists"):
		return broker.Exists
	case has("is running"), has("already running"), has("does not keep"):
		return broker.Conflict
	}
	return broker.Invalid
}
