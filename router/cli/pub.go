package cli

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"signalbox/router/client"
)

// pub publishes messages.
type pub struct {
	place
	*tree
	file   string
	lines  bool
	qos    int
	retain bool
}

// pubCommand publishes a message, or one for each line of standard input.
func (t *tree) pubCommand() *cobra.Command {
	p := &pub{tree: t}
	cmd := &cobra.Command{Use: "pub TOPIC [PAYLOAD] [flags]", Short: "Publish a message, or one for each line of standard input", DisableFlagsInUseLine: true,
		GroupID: group, ValidArgsFunction: cobra.NoFileCompletions,
		Long: wrap("Publishes a message with the payload of the argument, of a file as it is, or of standard input (-f -). With --lines, each line of standard input is a message; the command ends at the first one that is refused."),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usage("%s expects TOPIC [PAYLOAD]; see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		}}
	flags := cmd.Flags()
	flags.StringVarP(&p.file, "file", "f", "", "`FILE` with the payload; - is standard input")
	flags.BoolVar(&p.lines, "lines", false, "Publish each line of standard input")
	flags.IntVar(&p.qos, "qos", 0, "QoS of the `NUMBER` 0, 1 or 2")
	flags.BoolVar(&p.retain, "retain", false, "Have the broker retain the message; an empty payload deletes the one that it retains")
	p.place.add(cmd, t)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := p.run(cmd, args)
		if err != nil && cmd.Context().Err() != nil {
			return &failure{code: CodeInterrupted, err: fmt.Errorf("interrupted: %w", err)}
		}
		return err
	}
	return cmd
}

func (p *pub) run(cmd *cobra.Command, args []string) error {
	sources := 0
	for _, given := range []bool{len(args) == 2, p.file != "", p.lines} {
		if given {
			sources++
		}
	}
	if sources > 1 {
		return usage("PAYLOAD, --file and --lines exclude each other")
	}
	payload, err := p.payload(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), p.timeout)
	defer cancel()
	s, err := p.at(ctx, &p.place, p.operation("publish"))
	if err != nil {
		return err
	}
	if p.lines {
		return p.publishLines(cmd.Context(), s, args[0])
	}
	return p.publish(cmd.Context(), s, args[0], payload)
}

// payload returns that of the argument or the file.
func (p *pub) payload(args []string) ([]byte, error) {
	if len(args) == 2 {
		return []byte(args[1]), nil
	}
	if p.file == "" {
		return nil, nil
	}
	r, err := p.env.open(p.file, "--file")
	if err != nil {
		return nil, err
	}
	return readAll(r, p.file, maxFile)
}

func (p *pub) publishLines(ctx context.Context, s *session, topic string) error {
	in := bufio.NewReaderSize(p.env.Stdin, maxLine)
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return usage("line %d: has more than %d bytes", number, maxLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		if line[len(line)-1] == '\n' {
			line = line[:len(line)-1]
		}
		if failed := p.publish(ctx, s, topic, line); failed != nil {
			return fmt.Errorf("line %d: %w", number, failed)
		}
	}
}

// publish publishes one message: a payload that is not UTF-8 in base64.
func (p *pub) publish(ctx context.Context, s *session, topic string, payload []byte) error {
	message := map[string]any{"topic": topic, "payload": string(payload), "qos": p.qos, "retain": p.retain}
	if !utf8.Valid(payload) {
		message["payload"], message["encoding"] = base64.StdEncoding.EncodeToString(payload), "base64"
	}
	body, err := encode(message)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	op := p.operation("publish")
	resp, err := s.Do(bounded, client.Request{Method: op.Method, Path: s.path(op.Path), Body: body})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
