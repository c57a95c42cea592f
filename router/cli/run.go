package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/router/client"
)

// run runs the command.
func (c *command) run(cmd *cobra.Command, args []string) error {
	err := c.do(cmd, args)
	if cmd.Context().Err() != nil && err != nil {
		return &failure{code: CodeInterrupted, err: fmt.Errorf("interrupted: %w", err)}
	}
	return c.format.failed(err)
}

func (c *command) do(cmd *cobra.Command, args []string) error {
	if err := c.fill(args); err != nil {
		return err
	}
	out, err := c.format.printer(cmd.OutOrStdout(), c.op)
	if err != nil {
		return err
	}
	if len(c.files) > 1 {
		return usage("--file is given more than once")
	}
	ask := func(prompt string) (string, error) { return c.tree.env.askPassword(cmd.ErrOrStderr(), prompt) }
	if err := c.readSecrets(ask); err != nil {
		return err
	}
	lines, err := c.openBulk()
	if err != nil {
		return err
	}
	if lines != nil {
		defer lines.Close() //nolint:errcheck // it was only read
		return c.createMany(cmd, lines)
	}
	return c.once(cmd, out)
}

// once calls the operation once and prints its response.
func (c *command) once(cmd *cobra.Command, out *printer) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	if err := c.confirm(cmd); err != nil {
		return err
	}
	s, err := c.tree.connect(&c.connection)
	if err != nil {
		return err
	}
	ctx, begin, cancel := c.limit(cmd.Context())
	defer cancel()
	if err := s.resolve(ctx, c.op, c.given()); err != nil {
		return err
	}
	query, err := c.queryValues()
	if err != nil {
		return err
	}
	if name := query.Get("projectId"); name != "" {
		id, err := s.idOf(ctx, "/api/projects/{projectId}", "projectId", name)
		if err != nil {
			return err
		}
		query.Set("projectId", id)
	}
	request := client.Request{Method: c.op.Method, Path: s.path(c.op.Path), Query: query, Body: body}
	if c.all && c.query("page") != nil {
		return c.numberedPages(ctx, s, request, out)
	}
	resp, err := s.Do(ctx, request)
	if err != nil {
		return err
	}
	begin()
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if err := c.print(ctx, resp, out); err != nil {
		return err
	}
	c.note(cmd, resp.Total, out.count)
	return nil
}

// print prints a response.
func (c *command) print(ctx context.Context, resp *client.Response, out *printer) error {
	var err error
	switch c.op.Media {
	case "":
		return nil
	case jsonMedia:
		if resp.Status == statusMulti && c.op.Method != "GET" {
			return out.parts(resp.Body)
		}
		err = out.response(resp.Body)
	case eventMedia:
		err = out.events(resp.Body)
		if c.timeoutFlag.Changed && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return nil
		}
		if err == nil {
			err = errors.New("the service has ended the stream")
		}
	default:
		err = c.copyText(out.w, resp.Body)
	}
	if err != nil && ctx.Err() != nil {
		return &client.ConnectionError{Sent: true, Err: context.Cause(ctx)}
	}
	return err
}

// copyText prints a response that is not JSON: byte for byte, but for what a terminal would take
// for commands.
func (c *command) copyText(w io.Writer, text io.Reader) error {
	if !c.tree.env.Terminal(w) {
		_, err := io.Copy(w, text)
		return err
	}
	for lines := bufio.NewReader(text); ; {
		line, err := lines.ReadString('\n')
		if _, failed := fmt.Fprint(w, printableLines(line)); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// The media types of responses, and the status of an operation on several objects.
const (
	jsonMedia   = "application/json"
	eventMedia  = "text/event-stream"
	statusMulti = 207
)

// limit bounds the time of a call. A whole list is bounded by the flag only. begin is called
// when the response has begun.
func (c *command) limit(parent context.Context) (ctx context.Context, begin func(), cancel context.CancelFunc) {
	begin = func() {}
	switch {
	case c.op.Media == eventMedia:
		return c.limitStream(parent)
	case c.timeoutFlag.Changed:
	case c.all:
		ctx, cancel = context.WithCancel(parent)
		return ctx, begin, cancel
	case c.op.Large:
		ctx, cancel = context.WithTimeout(parent, largeTime)
		return ctx, begin, cancel
	}
	ctx, cancel = context.WithTimeout(parent, c.timeout)
	return ctx, begin, cancel
}

// given returns the values of the parameters of the path.
func (c *command) given() map[string]string {
	values := map[string]string{}
	for _, in := range slices.Concat(c.arguments, c.flags) {
		if in.in == inPath && in.given {
			values[in.field.Name] = in.texts[0]
		}
	}
	return values
}

// firstPage is the number of entries of a list that are printed without --all.
const firstPage = 100

// queryValues returns the query. A list without a number of entries is its first page.
func (c *command) queryValues() (url.Values, error) {
	values := url.Values{}
	for _, in := range slices.Concat(c.arguments, c.flags) {
		switch {
		case in.in != inQuery:
		case in.given:
			values[in.field.Name] = in.texts
		case in.field.Required && in.field.Default == "":
			return nil, usage("--%s is required", in.flag)
		}
	}
	if count := c.query("count"); c.paged() && !c.all && count != nil && !count.given && c.query("topic").missing() {
		values.Set("count", strconv.Itoa(firstPage))
	}
	return values, nil
}

// missing reports whether a flag does not exist or is not given.
func (i *input) missing() bool { return i == nil || !i.given }

// note reports that a list was printed in part.
func (c *command) note(cmd *cobra.Command, total, printed int) {
	if c.paged() && !c.all && total > printed && c.query("count").missing() {
		fmt.Fprintf(cmd.ErrOrStderr(), "signalbox: %d of %d entries; --all prints all\n", printed, total)
	}
}

// confirm asks whether a destructive command is meant.
func (c *command) confirm(cmd *cobra.Command) error {
	if !c.destructive() || c.yes {
		return nil
	}
	e := c.tree.env
	if c.standardIn != "" || !e.Terminal(e.Stdin) || !e.Terminal(cmd.ErrOrStderr()) {
		return usage("this command cannot be undone; give --yes to confirm it")
	}
	var names []string
	for _, a := range c.arguments {
		names = append(names, a.texts...)
	}
	return e.ask(cmd.ErrOrStderr(), c.op.Summary+" "+printable(strings.Join(names, " ")))
}

// destructive reports whether a command asks for a confirmation: what it deletes or
// replaces cannot be restored.
func (c *command) destructive() bool {
	switch c.op.ID {
	case "cancelJob", "stopStreamReplay": // they end what goes on
		return false
	case "createJob", "createCluster", "joinCluster", "leaveCluster", "importAccess":
		return true
	}
	return c.op.Method == "DELETE"
}

// askPassword asks for a secret at the terminal.
func (e *Env) askPassword(stderr io.Writer, prompt string) (string, error) {
	if !e.Terminal(e.Stdin) {
		return "", usage("a password can be asked for at a terminal only")
	}
	fmt.Fprint(stderr, prompt)
	text, err := e.ReadPassword()
	fmt.Fprintln(stderr)
	return string(text), err
}
