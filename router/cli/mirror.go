package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router/site"
)

// mirror has the flags of the command that keeps access control of brokers the same.
type mirror struct {
	connection
	*tree
	project, from string
	to            []string
	every         time.Duration
	dryRun, yes   bool
	exitCode      bool
}

// mirrorCommand copies the access control of a broker to others.
func (t *tree) mirrorCommand() *cobra.Command {
	m := &mirror{tree: t}
	cmd := &cobra.Command{Use: "mirror --from BROKER --to BROKER", Short: "Keep the access control of brokers the same as that of another one", Args: exactly(0), GroupID: group, DisableFlagsInUseLine: true,
		Long: wrap("Compares roles, groups, clients and the default access of brokers with those of another one, prints what differs, and changes them accordingly; what the other one lacks is deleted. The account with which the service manages a broker is kept. Passwords cannot be read: a client that is created has none until one is set. With --every the comparison is repeated until the command is stopped.")}
	flags := cmd.Flags()
	flags.StringVar(&m.project, "project", "", "`NAME` of the project; of the context or the only one by default")
	flags.StringVar(&m.from, "from", "", "`NAME` of the broker to copy from")
	flags.StringArrayVar(&m.to, "to", nil, "`NAME` of a broker to change; may be given several times")
	flags.DurationVar(&m.every, "every", 0, "`TIME` after which the comparison is repeated")
	flags.BoolVar(&m.dryRun, "dry-run", false, "Print what differs and change nothing")
	flags.BoolVar(&m.exitCode, "exit-code", false, "Exit with 1 if there are differences, which needs --dry-run")
	flags.BoolVar(&m.yes, "yes", false, "Do not ask for a confirmation")
	m.add(flags)
	for _, name := range []string{"from", "to"} {
		cmd.MarkFlagRequired(name) //nolint:errcheck // the flag exists
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return interruptedAs(cmd, m.run(cmd)) }
	return cmd
}

// check returns the error of flags that contradict each other.
func (m *mirror) check() error {
	switch {
	case slices.Contains(m.to, m.from):
		return usage("--to: %s is the broker to copy from", m.from)
	case m.every != 0 && (m.every < time.Second || !m.yes && !m.dryRun):
		return usage("--every: must be at least 1s, and needs --yes or --dry-run")
	case m.exitCode && !m.dryRun:
		return usage("--exit-code: needs --dry-run")
	}
	return nil
}

func (m *mirror) run(cmd *cobra.Command) error {
	if err := m.check(); err != nil {
		return err
	}
	s, err := m.connect(&m.connection)
	if err != nil {
		return err
	}
	if err := s.resolve(cmd.Context(), m.operation("getProject"), map[string]string{"projectId": m.project}); err != nil {
		return err
	}
	api := &caller{session: s, limit: m.timeout}
	for {
		err := m.once(cmd, api)
		if m.every == 0 || cmd.Context().Err() != nil {
			return err
		}
		if err != nil { // the next comparison repeats what failed
			fmt.Fprintln(cmd.ErrOrStderr(), Describe(err))
		}
		select {
		case <-time.After(m.every):
		case <-cmd.Context().Done():
			return context.Cause(cmd.Context())
		}
	}
}

// once compares each broker, and changes it.
func (m *mirror) once(cmd *cobra.Command, api *caller) error {
	source, err := m.source(cmd.Context(), api)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range m.to {
		if err := m.target(cmd, api, source, name); err != nil {
			failed = append(failed, fmt.Errorf("broker %s: %w", name, err))
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	if len(failed) > 0 {
		return &failure{code: CodePartly, err: errors.Join(failed...)}
	}
	return nil
}

// source returns the access control to copy.
func (m *mirror) source(ctx context.Context, api *caller) (*site.Document, error) {
	var missing error
	d, err := site.Export(ctx, api, api.ids["projectId"], m.from, func(part string, err error) {
		if part == site.AccessControl {
			missing = err
		}
	})
	if err = errors.Join(err, missing); err != nil {
		return nil, explained(err)
	}
	return d, nil
}

func (m *mirror) target(cmd *cobra.Command, api *caller, source *site.Document, name string) error {
	plan, err := api.compare(cmd.Context(), source.As(name), site.Options{Secrets: m.secrets(), Prune: true, Only: true})
	if err != nil {
		return err
	}
	if plan.Changes() > 0 || m.every == 0 {
		if err := printPlan(cmd.OutOrStdout(), plan); err != nil {
			return err
		}
	}
	if m.exitCode && plan.Changes() > 0 {
		return &failure{code: CodeFailed, err: fmt.Errorf("differences: %d", plan.Changes())}
	}
	if plan.Changes() == 0 || m.dryRun {
		return nil
	}
	if err := m.confirm(cmd, plan, name); err != nil {
		return err
	}
	if err := performed(cmd, cmd.OutOrStdout(), m.env, plan, m.now, func(site.Step) {}); err != nil {
		return err
	}
	if n := plan.Count(site.Create, "client"); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "signalbox: %d new clients of %s have no password yet; set one with \"signalbox client modify\"\n", n, printable(name))
	}
	return nil
}

func (m *mirror) confirm(cmd *cobra.Command, plan *site.Plan, name string) error {
	if m.yes {
		return nil
	}
	if !m.env.Terminal(m.env.Stdin) || !m.env.Terminal(cmd.ErrOrStderr()) {
		return usage("this changes the access control of %s; give --yes to confirm it", name)
	}
	return m.env.ask(cmd.ErrOrStderr(), fmt.Sprintf("Make these %d changes to %s", plan.Changes(), printable(name)))
}
