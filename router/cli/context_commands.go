package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/router"
	"signalbox/router/client"
)

// contextCommand has the commands for the services that the user has named.
func (t *tree) contextCommand() *cobra.Command {
	parent := &cobra.Command{Use: "context", Short: "add, list, remove, use: the services that the other commands call", GroupID: group}
	parent.AddCommand(t.addContext(), t.listContexts(),
		t.changeContexts("use NAME", "Make a context the current one", func(all *contexts, name string) { all.Current = name }),
		t.changeContexts("remove NAME", "Remove a context, with its token", func(all *contexts, name string) {
			delete(all.Contexts, name)
			if all.Current == name {
				all.Current = ""
			}
		}))
	return parent
}

func (t *tree) addContext() *cobra.Command {
	var c savedContext
	var tokenFile string
	var replace bool
	cmd := &cobra.Command{Use: "add NAME --url URL [flags]", Short: "Name a service, and store the token for it", Args: exactly(1), DisableFlagsInUseLine: true,
		Long: wrap("Names a service, and stores the token for it in a file that only the user can read. The first context becomes the current one.")}
	flags := cmd.Flags()
	flags.StringVar(&c.URL, "url", "", "`URL` of the service, such as https://signalbox.example:8080. Required.")
	flags.StringVar(&tokenFile, "token-file", "", "`FILE` with the token of a session or a project; - is standard input")
	flags.StringVar(&c.CAFile, "ca-file", "", "PEM `FILE` of the certificate authorities of the service")
	flags.StringVar(&c.Project, "project", "", "`NAME` or id of the project that commands use")
	flags.StringVar(&c.Broker, "broker", "", "`NAME` or id of the broker that commands use")
	flags.BoolVar(&replace, "replace", false, "Replace the context if it exists")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if !contextName.MatchString(name) {
			return usage("%q is not a name of a context: it has letters, digits, dots, underscores and hyphens, at most 64", name)
		}
		if err := t.completeContext(&c, tokenFile); err != nil {
			return err
		}
		all, err := t.env.loadContexts()
		if err != nil {
			return err
		}
		if _, exists := all.Contexts[name]; exists && !replace {
			return &failure{code: CodeConflict, err: fmt.Errorf("the context %q exists; --replace replaces it", name)}
		}
		if all.Contexts[name] = c; all.Current == "" {
			all.Current = name
		}
		return t.env.saveContexts(all)
	}
	return cmd
}

// completeContext checks the URL and the files of a new context, and reads its token.
func (t *tree) completeContext(c *savedContext, tokenFile string) (err error) {
	if c.URL == "" {
		return usage("--url is required")
	}
	if c.CAFile != "" {
		if c.CAFile, err = filepath.Abs(c.CAFile); err != nil {
			return err
		}
	}
	if tokenFile != "" {
		if c.Token, err = t.env.ReadToken(tokenFile); err != nil {
			return err
		}
	}
	o, err := c.options()
	if err == nil {
		_, err = client.Connect(o)
	}
	if err != nil {
		return UsageError{err}
	}
	return nil
}

// changeContexts returns a command that changes one context.
func (t *tree) changeContexts(use, short string, change func(all *contexts, name string)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: exactly(1), ValidArgsFunction: t.completeContextName,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := t.env.loadContexts()
			if err != nil {
				return err
			}
			if _, err := all.find(args[0]); err != nil {
				return err
			}
			change(&all, args[0])
			return t.env.saveContexts(all)
		}}
}

// contextSchema describes an entry of the list of contexts.
var contextSchema = &router.Schema{Kind: router.Object, Members: []router.Field{
	{Name: "name", Schema: router.Schema{Kind: router.Text}}, {Name: "url", Schema: router.Schema{Kind: router.Text}},
	{Name: "current", Schema: router.Schema{Kind: router.Boolean}}, {Name: "project", Schema: router.Schema{Kind: router.Text}},
	{Name: "broker", Schema: router.Schema{Kind: router.Text}}}}

func (t *tree) listContexts() *cobra.Command {
	f := format{}
	cmd := &cobra.Command{Use: "list", Short: "List the contexts, without their tokens", Args: exactly(0)}
	op := &router.Operation{Media: jsonMedia, Result: contextSchema, List: true}
	f.add(cmd.Flags(), op)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := t.env.loadContexts()
		if err != nil {
			return err
		}
		type entry struct {
			Name    string `json:"name"`
			URL     string `json:"url"`
			Current bool   `json:"current"`
			Project string `json:"project"`
			Broker  string `json:"broker"`
		}
		list := []entry{}
		for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
			c := all.Contexts[name]
			list = append(list, entry{name, c.URL, name == all.Current, c.Project, c.Broker})
		}
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		p, err := f.printer(cmd.OutOrStdout(), op)
		if err != nil {
			return err
		}
		return p.response(strings.NewReader(string(text)))
	}
	return cmd
}

// exactly refuses another number of arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usage("%w; see \"%s --help\"", err, cmd.CommandPath())
		}
		return nil
	}
}
