package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"signalbox/router"
	"signalbox/router/client"
)

// place has the flags of a command that is not made from one operation: the service, the
// project and the broker.
type place struct {
	connection
	project, broker string
}

// add adds the flags, whose names of projects and brokers are completed.
func (p *place) add(cmd *cobra.Command, t *tree) {
	flags := cmd.Flags()
	flags.StringVar(&p.project, "project", "", "`NAME` or id of the project; of the context or the only one by default")
	flags.StringVar(&p.broker, "broker", "", "`NAME` or id of the broker; of the context or the only one by default")
	for flag, list := range map[string]string{"project": "listProjects", "broker": "listBrokers"} {
		names := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			c := &command{tree: t, connection: p.connection}
			if p.project != "" {
				c.flags = []*input{{in: inPath, field: router.Field{Name: "projectId"}, given: true, texts: []string{p.project}}}
			}
			return c.names(cmd, t.operation(list), begun), cobra.ShellCompDirectiveNoFileComp
		}
		cmd.RegisterFlagCompletionFunc(flag, names) //nolint:errcheck // the flag exists
	}
	p.connection.add(flags)
}

// operation returns an operation by its id. The table has it: a test calls each command.
func (t *tree) operation(id string) *router.Operation {
	return &t.ops[slices.IndexFunc(t.ops, func(op router.Operation) bool { return op.ID == id })]
}

// at connects to the service and finds the project and the broker of an operation.
func (t *tree) at(ctx context.Context, p *place, op *router.Operation) (*session, error) {
	s, err := t.connect(&p.connection)
	if err != nil {
		return nil, err
	}
	return s, s.resolve(ctx, op, map[string]string{"projectId": p.project, "brokerId": p.broker})
}

// raw calls an operation that reads and returns its body.
func (s *session) raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	resp, err := s.Do(ctx, client.Request{Method: "GET", Path: path, Query: query})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return nil, &client.ConnectionError{Sent: true, Err: err}
	}
	return text, nil
}

// get calls an operation that reads and decodes its body.
func (s *session) get(ctx context.Context, path string, query url.Values, v any) error {
	text, err := s.raw(ctx, path, query)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
