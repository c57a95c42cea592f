package cli

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router"
	"signalbox/router/client"
)

// completionTime bounds the time in which names are asked for: the user waits.
const completionTime = 500 * time.Millisecond

// maxNames bounds the names that are offered.
const maxNames = 200

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeArgument offers the names of objects for an argument.
func (c *command) completeArgument(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) >= len(c.arguments) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	in := c.arguments[len(args)]
	if len(in.field.Enum) > 0 {
		return begunWith(in.field.Enum, begun), cobra.ShellCompDirectiveNoFileComp
	}
	if in.in == inPath {
		return c.names(cmd, c.listOf(in), begun), cobra.ShellCompDirectiveNoFileComp
	}
	if strings.HasPrefix(c.verb(), "create") || strings.HasPrefix(c.verb(), "add") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.names(cmd, c.listNamed(c.name[0]), begun), cobra.ShellCompDirectiveNoFileComp
}

// completeFlag offers the values of an enum, or the names of the objects that the flag is
// about.
func (c *command) completeFlag(in *input) completer {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(in.field.Enum) > 0:
			return begunWith(in.field.Enum, begun), cobra.ShellCompDirectiveNoFileComp
		case in.in == inPath:
			return c.names(cmd, c.listOf(in), begun), cobra.ShellCompDirectiveNoFileComp
		case in.many():
			return c.names(cmd, c.listNamed(in.flag), begun), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// listOf returns the operation that lists the objects of a parameter of the path, nil if
// there is none.
func (c *command) listOf(in *input) *router.Operation {
	list, _, _ := strings.Cut(c.op.Path, "/{"+in.field.Name+"}")
	return c.find(func(op *router.Operation) bool { return op.Method == "GET" && op.Path == list })
}

// listNamed returns the operation of the command "NOUN list".
func (c *command) listNamed(noun string) *router.Operation {
	if noun == "session" {
		return c.find(func(op *router.Operation) bool { return op.ID == "inspectClients" })
	}
	return c.find(func(op *router.Operation) bool {
		words := split(op.ID)
		return words[0] == "list" && singular(strings.Join(words[1:], "-")) == noun
	})
}

func (c *command) find(is func(*router.Operation) bool) *router.Operation {
	for i := range c.tree.ops {
		if is(&c.tree.ops[i]) {
			return &c.tree.ops[i]
		}
	}
	return nil
}

// names returns the names of the objects that an operation lists and that have a prefix;
// none if it fails or takes too long.
func (c *command) names(cmd *cobra.Command, list *router.Operation, begun string) []string {
	if list == nil {
		return nil
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTime)
	defer cancel()
	s, err := c.tree.connect(&c.connection)
	if err != nil || s.resolve(ctx, list, c.given()) != nil {
		return nil
	}
	query := url.Values{}
	for _, p := range list.Query {
		switch p.Name {
		case "count":
			query.Set("count", strconv.Itoa(maxNames))
		case "filterValue":
			query.Set("filterValue", begun)
			query.Set("filterMode", "startsWith")
		case "pageSize":
			query.Set("pageSize", strconv.Itoa(maxNames))
		}
	}
	if begun == "" {
		query.Del("filterValue")
		query.Del("filterMode")
	}
	resp, err := s.Do(ctx, client.Request{Method: list.Method, Path: s.path(list.Path), Query: query})
	if err != nil {
		return nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	var b strings.Builder
	p := &printer{w: &b, format: asNames, operation: list.ID, schema: itemSchema(list.Result)}
	if p.response(resp.Body) != nil {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	return begunWith(all, begun)
}

// begunWith returns the names that have a prefix.
func begunWith(all []string, begun string) (names []string) {
	for _, name := range all {
		if name != "" && strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names
}

// completeContextName offers the names of contexts.
func (t *tree) completeContextName(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	all, err := t.env.loadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return begunWith(slices.Sorted(maps.Keys(all.Contexts)), begun), cobra.ShellCompDirectiveNoFileComp
}
