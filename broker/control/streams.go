package control

import (
	"context"
	"encoding/json"
	"iter"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// StreamTopic is the control topic of streams.
const StreamTopic = "$CONTROL/stream-processing/v1"

// The texts of streams.
const (
	errStreamName   refusal = "Invalid/missing streamname"
	errSourceTopic  refusal = "Invalid/missing sourcetopic"
	errReplayTopic  refusal = "Invalid/missing replaytopic"
	errSpeed        refusal = "Invalid/missing speed"
	errNoStream     refusal = "Stream not found"
	errStreamExists refusal = "Stream already exists"
	errNotJSON      refusal = "Payload not valid JSON"
)

// ErrNoHost is for streams and bridges of a cluster that no node runs at present. It may be repeated.
const ErrNoHost refusal = "No node of the cluster runs its streams and bridges at the moment, and nothing was changed: try again when a majority of its nodes is in contact"

// The words for speeds, which have numbers as well.
const (
	speedOriginal = "original"
	speedFastest  = "fastest"
)

// Streams executes a request on StreamTopic. It calls license only if it is requested.
func Streams(ctx context.Context, s broker.Streams, license func(context.Context) (broker.License, error), payload []byte) []byte {
	args := reread(payload)
	about := func(op string, do func(ctx context.Context, name string, args members) (any, error)) command {
		return command{op, func(ctx context.Context, o dynsec.Object) (any, error) {
			name, ok := o.Text("streamname")
			m, fault := args.next(op)
			switch {
			case fault != nil:
				return nil, fault
			case !ok || name == "" || !utf8.ValidString(name):
				return nil, errStreamName
			}
			data, err := do(ctx, name, m)
			return data, streamRefusal(err)
		}}
	}
	return serve(ctx, payload, append(streamCommands(s, about),
		command{opListStreams, func(ctx context.Context, o dynsec.Object) (any, error) { return listStreams(ctx, s, o) }},
		command{opGetStreamLicense, func(ctx context.Context, _ dynsec.Object) (any, error) {
			l, err := license(ctx)
			return streamLicenseOf(l), err
		}},
	)...)
}

// streamCommands returns the commands about one stream, each made by about.
func streamCommands(s broker.Streams, about func(op string, do func(context.Context, string, members) (any, error)) command) []command {
	simple := func(op string, do func(context.Context, string) error) command {
		return about(op, func(ctx context.Context, name string, _ members) (any, error) { return done{}, do(ctx, name) })
	}
	enable := func(active bool) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			return s.ModifyStream(ctx, broker.StreamSpec{StreamName: name, Active: &active}, false)
		}
	}
	return []command{
		about(opCreateStream, func(ctx context.Context, name string, m members) (any, error) { return createStream(ctx, s, name, m) }),
		about(opModifyStream, func(ctx context.Context, name string, m members) (any, error) { return modifyStream(ctx, s, name, m) }),
		simple(opDeleteStream, s.DeleteStream),
		simple(opEnableStream, enable(true)),
		simple(opDisableStream, enable(false)),
		about(opGetStream, func(ctx context.Context, name string, _ members) (any, error) { return getStream(ctx, s, name) }),
		about(opCountStreamMessages, func(ctx context.Context, name string, _ members) (any, error) {
			return s.CountStreamMessages(ctx, name)
		}),
		about(opClearStreamMessages, func(ctx context.Context, name string, m members) (any, error) {
			gte, lte, err := m.period()
			if err != nil {
				return nil, err
			}
			return done{}, s.ClearStreamMessages(ctx, name, gte, lte)
		}),
		about(opReplayStream, func(ctx context.Context, name string, m members) (any, error) {
			r, err := m.replay(name)
			if err != nil {
				return nil, err
			}
			return done{}, s.ReplayStream(ctx, r)
		}),
		simple(opStopStreamReplay, s.StopStreamReplay),
	}
}

// streamRefusal replaces errors of two kinds by the usual texts.
func streamRefusal(err error) error {
	if err != nil && broker.KindOf(err) == broker.Exists {
		return errStreamExists
	}
	return missing(err, errNoStream)
}

func createStream(ctx context.Context, s broker.Streams, name string, m members) (any, error) {
	spec, err := m.spec(name)
	if err != nil {
		return nil, err
	}
	if spec.SourceTopic == nil {
		return nil, errSourceTopic
	}
	return done{}, s.CreateStream(ctx, spec)
}

func modifyStream(ctx context.Context, s broker.Streams, name string, m members) (any, error) {
	spec, err := m.spec(name)
	if err != nil {
		return nil, err
	}
	replace, err := member[bool](m, "replace")
	if err != nil {
		return nil, err
	}
	return done{}, s.ModifyStream(ctx, spec, replace != nil && *replace)
}

// streamRecord is the data of getStream. It contains the record twice, because some
// clients read it from the data itself and others from the member.
type streamRecord struct {
	broker.Stream
	Again broker.Stream `json:"stream"`
}

func getStream(ctx context.Context, s broker.Streams, name string) (any, error) {
	record, err := s.GetStream(ctx, name)
	return streamRecord{record, record}, err
}

// streamList is the data of listStreams: names or, if verbose, records.
type streamList struct {
	TotalCount int               `json:"totalCount"`
	Streams    []json.RawMessage `json:"streams"`
}

func listStreams(ctx context.Context, s broker.Streams, args dynsec.Object) (any, error) {
	offset, count := pageBounds(args)
	verbose, _ := args.Bool("verbose")
	page, err := s.ListStreams(ctx, broker.ListOptions[broker.Stream]{Offset: offset, Count: count, NamesOnly: !verbose})
	if err != nil {
		return nil, err
	}
	list, err := collectStreams(page.Items, verbose)
	return streamList{TotalCount: page.Total, Streams: list}, err
}

func collectStreams(items iter.Seq2[broker.Stream, error], verbose bool) ([]json.RawMessage, error) {
	return collected(items, func(s broker.Stream) any {
		if verbose {
			return s
		}
		return s.StreamName
	})
}

// collected encodes the entries of a page, if a response has space for them.
func collected[T any](items iter.Seq2[T, error], form func(T) any) ([]json.RawMessage, error) {
	list, remaining := []json.RawMessage{}, maxResponse
	if items == nil {
		return list, nil
	}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		raw := encode(form(item))
		if remaining -= len(raw); remaining < 0 {
			return nil, errTooLarge
		}
		list = append(list, raw)
	}
	return list, nil
}

// streamLicense is the data of getLicense. Times are epoch milliseconds.
type streamLicense struct {
	IssuedBy string          `json:"issuedBy"`
	IssuedTo string          `json:"issuedTo"`
	Comment  string          `json:"comment"`
	Serial   string          `json:"serial"`
	Features []streamFeature `json:"features"`
}

// streamFeature is a function of streams that the licence covers; a count of -1 is
// unlimited.
type streamFeature struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	ValidSince int64  `json:"validSince"`
	ValidUntil int64  `json:"validUntil"`
	Count      int    `json:"count"`
}

// streamLicenseOf returns a broker's licence in the form for streams: all functions are
// covered while the licence is valid.
func streamLicenseOf(l broker.License) streamLicense {
	out := streamLicense{IssuedBy: l.IssuedBy, IssuedTo: l.IssuedTo}
	for _, name := range []string{"stream-count", "stream-processing", "stream-persistence"} {
		out.Features = append(out.Features, streamFeature{Name: name, Version: "1", ValidSince: l.ValidSince, ValidUntil: l.ValidUntil, Count: -1})
	}
	return out
}
