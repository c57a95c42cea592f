package cli

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/router/client"
)

// tail prints the messages of a broker.
type tail struct {
	place
	*tree
	filters  []string
	output   string
	count    int
	retained bool
	printed  int
}

// tailFormats are the formats of messages.
var tailFormats = []string{"text", asLines}

// tailCommand prints what is published to a broker, one message per line.
func (t *tree) tailCommand() *cobra.Command {
	l := &tail{tree: t}
	cmd := &cobra.Command{Use: "tail FILTER... [flags]", Aliases: []string{"sub"}, Short: "Print the messages of a broker as they are published",
		DisableFlagsInUseLine: true, GroupID: group, ValidArgsFunction: cobra.NoFileCompletions,
		Long: wrap("Prints the messages whose topics match a filter, up to 10 filters, until it is interrupted, or for the time of --timeout. A line has the topic and the payload, of which at most 1000 bytes are sent; a payload that is not text is hexadecimal after 0x, and control characters are escaped. A second has at most 50 messages."),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s expects FILTER...; see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		}}
	flags := cmd.Flags()
	flags.StringVarP(&l.output, "output", "o", "text", "`FORMAT`: "+strings.Join(tailFormats, ", "))
	flags.IntVar(&l.count, "count", 0, "End after this `NUMBER` of messages; 0 is without end")
	flags.BoolVar(&l.retained, "retained", false, "Print the retained messages of the filters first")
	l.place.add(cmd, t)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l.filters = args
		err := l.run(cmd)
		if err != nil && cmd.Context().Err() != nil {
			return &failure{code: CodeInterrupted, err: fmt.Errorf("interrupted: %w", err)}
		}
		return err
	}
	return cmd
}

// errEnough ends a stream of which all messages that were asked for are printed.
var errEnough = errors.New("enough messages")

func (l *tail) run(cmd *cobra.Command) error {
	if !slices.Contains(tailFormats, l.output) {
		return usage("--output: must be one of %s", strings.Join(tailFormats, ", "))
	}
	if l.count < 0 {
		return usage("--count: must not be negative")
	}
	ctx, begin, cancel := l.limitStream(cmd.Context())
	defer cancel()
	op := l.operation("listenMessages")
	s, err := l.at(ctx, &l.place, op)
	if err != nil {
		return err
	}
	resp, err := s.Do(ctx, client.Request{Method: op.Method, Path: s.path(op.Path), Query: url.Values{"filter": l.filters}})
	if err != nil {
		return err
	}
	begin()
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if l.retained {         // after the stream has begun, so that no message is missing between both
		err = l.printRetained(ctx, cmd.OutOrStdout(), s)
	}
	if err == nil {
		err = readEvents(resp.Body, func(kind, data string) error { return l.event(cmd, kind, data) })
	}
	switch {
	case errors.Is(err, errEnough), errors.Is(context.Cause(ctx), context.DeadlineExceeded) && l.count == 0:
		return nil
	case err == nil:
		return errors.New("the service has ended the stream")
	case ctx.Err() != nil:
		return &client.ConnectionError{Sent: true, Err: context.Cause(ctx)}
	}
	return err
}

func (l *tail) printRetained(ctx context.Context, w io.Writer, s *session) error {
	for _, filter := range l.filters {
		var list []json.RawMessage
		if err := s.get(ctx, s.path(l.operation("listRetained").Path), url.Values{"filter": {filter}, "count": {"-1"}}, &list); err != nil {
			return err
		}
		for _, one := range list {
			if err := l.message(w, string(one)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *tail) event(cmd *cobra.Command, kind, data string) error {
	switch kind {
	case "message":
		return l.message(cmd.OutOrStdout(), data)
	case "skipped":
		var left struct{ Skipped int }
		if err := json.Unmarshal([]byte(data), &left); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "signalbox: %d messages were left out\n", left.Skipped)
	}
	return nil
}

// message prints a message. Its error is errEnough after the last one.
func (l *tail) message(w io.Writer, data string) error {
	line := data
	if l.output != asLines {
		var m struct {
			Topic, Payload, Encoding string
			Truncated                bool
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return err
		}
		line = printable(m.Topic) + "  " + payloadText(m.Payload, m.Encoding)
		if m.Truncated {
			line += " ..."
		}
	}
	if _, err := fmt.Fprintln(w, line); err != nil {
		return err
	}
	if l.printed++; l.printed == l.count {
		return errEnough
	}
	return nil
}

// payloadText returns a payload for a line of text.
func payloadText(payload, encoding string) string {
	if bytes, err := base64.StdEncoding.DecodeString(payload); encoding == "base64" && err == nil {
		return "0x" + hex.EncodeToString(bytes)
	}
	return printable(payload)
}
