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

// plugin is the streams that a broker has itself.
type plugin struct{ *Broker }

// ListStreams gives a part of the streams, fetched as it is read.
func (p plugin) ListStreams(ctx context.Context, o broker.ListOptions[broker.Stream]) (broker.Page[broker.Stream], error) {
	return pages.List(ctx, pages.Source[broker.Stream]{
		Name: func(s broker.Stream) string { return s.StreamName },
		Fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.Stream, error) {
			var l control.StreamList
			err := p.command(ctx, control.ListStreams(verbose, count, offset), &l)
			return l.Total, l.Streams, err
		},
	}, o)
}

// GetStream asks for the record of a stream.
func (p plugin) GetStream(ctx context.Context, streamname string) (broker.Stream, error) {
	var r control.StreamRecord
	err := p.about(ctx, streamname, control.GetStream(streamname), &r)
	return r.Stream, err
}

// CreateStream has the broker create a stream.
func (p plugin) CreateStream(ctx context.Context, s broker.StreamSpec) error {
	if !utf8.ValidString(s.StreamName) {
		return &broker.Error{Kind: broker.Invalid, Op: "createStream", Msg: "streamname: must be UTF-8",
			Fields: []broker.Field{{Path: "streamname", Msg: "must be UTF-8"}}}
	}
	return p.command(ctx, control.CreateStream(s), nil)
}

// ModifyStream has the broker change a stream.
func (p plugin) ModifyStream(ctx context.Context, s broker.StreamSpec, replace bool) error {
	return p.about(ctx, s.StreamName, control.ModifyStream(s, replace), nil)
}

// DeleteStream has the broker delete a stream.
func (p plugin) DeleteStream(ctx context.Context, streamname string) error {
	return p.about(ctx, streamname, control.DeleteStream(streamname), nil)
}

// CountStreamMessages asks how much a stream keeps.
func (p plugin) CountStreamMessages(ctx context.Context, streamname string) (broker.StreamCount, error) {
	var c control.StreamCount
	err := p.about(ctx, streamname, control.CountStreamMessages(streamname), &c)
	c.StreamName = streamname
	return c.StreamCount, err
}

// ClearStreamMessages has the broker delete messages of a stream.
func (p plugin) ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error {
	return p.about(ctx, streamname, control.ClearStreamMessages(streamname, gte, lte), nil)
}

// ReplayStream has the broker begin a replay.
func (p plugin) ReplayStream(ctx context.Context, r broker.StreamReplay) error {
	return p.about(ctx, r.StreamName, control.ReplayStream(r), nil)
}

// StopStreamReplay has the broker end a replay.
func (p plugin) StopStreamReplay(ctx context.Context, streamname string) error {
	return p.about(ctx, streamname, control.StopStreamReplay(streamname), nil)
}

// about asks a command about a stream that is there. What is no UTF-8 cannot be
// said in JSON, and is the name of none.
func (p plugin) about(ctx context.Context, streamname string, c control.Command, data any) error {
	if !utf8.ValidString(streamname) {
		return &broker.Error{Kind: broker.NotFound, Op: c.Name, Msg: "Stream not found"}
	}
	return p.command(ctx, c, data)
}

// command asks a command about streams.
func (p plugin) command(ctx context.Context, c control.Command, data any) error {
	err := p.ask(ctx, broker.CapStreams, control.StreamTopic, c, data)
	if e, ok := errors.AsType[*broker.Error](err); ok && e.Kind == broker.Internal && e.Err == nil {
		e.Kind = kindOfRefusal(e.Msg)
	}
	return err
}

// kindOfRefusal tells of what kind the refusal of a command about streams is,
// where it is of none that all commands have. There are no codes, and of the
// texts of other brokers few are known; most of what they find fault with are
// arguments.
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
