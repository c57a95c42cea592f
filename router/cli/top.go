package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// top shows the sessions of a broker with the highest figures.
type top struct {
	place
	format
	*tree
	by       string
	count    int
	interval time.Duration
	once     bool
}

// topFigures are the figures by which sessions are ordered.
var topFigures = []string{"queue", "dropped", "rate", "inflight", "subscriptions"}

// topColumns are the columns of the page.
var topColumns = []string{"clientid", "username", "address", "connected", "queue", "dropped", "rate", "inflight", "subscriptions"}

// topCommand shows the sessions with the highest figures, at a terminal again and again.
func (t *tree) topCommand() *cobra.Command {
	p := &top{tree: t}
	cmd := &cobra.Command{Use: "top", Short: "Show the clients of a broker with the highest figures, live at a terminal", Args: exactly(0), GroupID: group,
		Long: wrap("Shows the sessions with the longest queues, or the highest other figure. At a terminal the page is refreshed until the command is interrupted; otherwise, with --once or with a format it is printed once.")}
	flags := cmd.Flags()
	flags.StringVar(&p.by, "by", topFigures[0], "`FIGURE`: "+strings.Join(topFigures, ", "))
	flags.IntVar(&p.count, "count", 20, "`NUMBER` of clients, at most 100")
	flags.DurationVar(&p.interval, "interval", 2*time.Second, "`TIME` between two pages, at least a second")
	flags.BoolVar(&p.once, "once", false, "Print one page")
	p.format.add(flags, t.operation("streamEvents"))
	p.place.add(cmd, t)
	byFigure := func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return begunWith(topFigures, begun), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RegisterFlagCompletionFunc("by", byFigure) //nolint:errcheck // the flag exists
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.run(cmd) }
	return cmd
}

func (p *top) run(cmd *cobra.Command) error {
	switch {
	case !slices.Contains(topFigures, p.by):
		return usage("--by: must be one of %s", strings.Join(topFigures, ", "))
	case p.interval < time.Second:
		return usage("--interval: must be at least a second")
	}
	w := cmd.OutOrStdout()
	if p.once || p.output != asTable || !p.env.Terminal(w) {
		return p.failed(p.page(cmd.Context(), w))
	}
	for {
		var page bytes.Buffer
		if err := p.page(cmd.Context(), &page); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "\x1b[H\x1b[2J%s by %s, every %s\n\n%s", p.now().Format(time.TimeOnly), p.by, p.interval, page.Bytes()); err != nil {
			return err
		}
		select {
		case <-cmd.Context().Done():
			return &failure{code: CodeInterrupted, err: errors.New("interrupted")}
		case <-time.After(p.interval):
		}
	}
}

// page prints the clients once.
func (p *top) page(parent context.Context, w io.Writer) error {
	op := p.operation("topClients")
	out, err := p.printer(w, op)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(parent, p.timeout)
	defer cancel()
	s, err := p.at(ctx, &p.place, op)
	if err != nil {
		return err
	}
	text, err := s.raw(ctx, s.path(op.Path), url.Values{"by": {p.by}, "count": {strconv.Itoa(p.count)}})
	if err != nil {
		return err
	}
	if p.output != asTable && p.output != asNames {
		return out.response(bytes.NewReader(text))
	}
	value, err := decodeJSON(text)
	if err != nil {
		return err
	}
	clients, _ := at(value, "clients").([]any)
	if p.output == asNames {
		for _, one := range clients {
			if err := out.line(cell(at(one, "clientid"))); err != nil {
				return err
			}
		}
		return nil
	}
	rows := newTable(w, topColumns, true)
	for _, one := range clients {
		if err := rows.add(one); err != nil {
			return err
		}
	}
	return rows.flush()
}
