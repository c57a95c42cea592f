package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router/site"
)

// declaration has the flags of the commands for a file of declared state.
type declaration struct {
	connection
	*tree
	file, state, prune string
	output             string
	dryRun, yes        bool
	exitCode           bool
}

// The values of --prune.
const (
	pruneCreated = "created"
	pruneAll     = "all"
)

func (d *declaration) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&d.file, "file", "f", "", "`FILE` with the declared state, in YAML or JSON; - is standard input")
	flags.StringVar(&d.prune, "prune", "", "Delete what the file lacks: `WHAT` an earlier apply of the file created (created), or all of each kind that it has (all)")
	flags.Lookup("prune").NoOptDefVal = pruneCreated
	flags.StringVar(&d.state, "state", "", "`FILE` that records what was created; by default the name of the declarations with .created.json")
	flags.StringVarP(&d.output, "output", "o", asTable, "`FORMAT` of the plan: "+asTable+" or "+asJSON)
	cmd.MarkFlagRequired("file") //nolint:errcheck // the flag exists
	d.add(flags)
}

// applyCommand brings a service to a declared state.
func (t *tree) applyCommand() *cobra.Command {
	d := &declaration{tree: t}
	cmd := &cobra.Command{Use: "apply -f FILE", Short: "Bring projects and brokers to the state that a file declares", Args: exactly(0), GroupID: group, DisableFlagsInUseLine: true,
		Long: wrap("Compares the file with the service, prints what differs, and changes the service accordingly. What the file does not mention is left as it is. Between the first and the last change no client is allowed what neither state allows. A run that was interrupted can be repeated. \"signalbox help declared-state\" describes the file.")}
	d.flags(cmd)
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "Print the plan and change nothing")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "Do not ask for a confirmation")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return interruptedAs(cmd, d.apply(cmd)) }
	return cmd
}

// diffCommand prints what apply would change.
func (t *tree) diffCommand() *cobra.Command {
	d := &declaration{tree: t, dryRun: true}
	cmd := &cobra.Command{Use: "diff -f FILE", Short: "Show how projects and brokers differ from what a file declares", Args: exactly(0), GroupID: group, DisableFlagsInUseLine: true,
		Long: wrap("Prints what \"signalbox apply\" would change, and changes nothing.")}
	d.flags(cmd)
	cmd.Flags().BoolVar(&d.exitCode, "exit-code", false, "Exit with 1 if there are differences")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return interruptedAs(cmd, d.apply(cmd)) }
	return cmd
}

// interruptedAs returns the error of a command that may have been interrupted.
func interruptedAs(cmd *cobra.Command, err error) error {
	if err != nil && cmd.Context().Err() != nil {
		return &failure{code: CodeInterrupted, err: fmt.Errorf("interrupted: %w", err)}
	}
	return err
}

func (d *declaration) apply(cmd *cobra.Command) error {
	if d.prune != "" && d.prune != pruneCreated && d.prune != pruneAll {
		return usage("--prune: must be %s or %s", pruneCreated, pruneAll)
	}
	if d.output != asTable && d.output != asJSON {
		return usage("--output: must be %s or %s", asTable, asJSON)
	}
	if d.prune == pruneCreated && d.file == "-" && d.state == "" {
		return usage("--prune: what was created from standard input is only known with --state")
	}
	document, err := d.read()
	if err != nil {
		return err
	}
	created, err := d.readCreated()
	if err != nil {
		return err
	}
	s, err := d.connect(&d.connection)
	if err != nil {
		return err
	}
	options := site.Options{Secrets: d.secrets(), Prune: d.prune != "", DryRun: d.dryRun}
	if d.prune == pruneCreated {
		options.Created = created
	}
	return d.rounds(cmd, &caller{session: s, limit: d.timeout}, document, options, created)
}

// rounds applies one plan after the other: what is in a broker can be compared only after
// the broker was created.
func (d *declaration) rounds(cmd *cobra.Command, api *caller, document *site.Document, o site.Options, created *site.Created) error {
	const most = 3 // projects, brokers, what is in them
	for range most {
		plan, err := api.compare(cmd.Context(), document, o)
		if err != nil {
			return err
		}
		if err := d.print(cmd.OutOrStdout(), plan); err != nil {
			return err
		}
		if d.exitCode && plan.Changes() > 0 {
			return &failure{code: CodeFailed, err: fmt.Errorf("differences: %d", plan.Changes())}
		}
		if d.dryRun || plan.Changes() == 0 {
			return nil
		}
		if err := d.confirm(cmd, plan); err != nil {
			return err
		}
		if err := d.perform(cmd, plan, created); err != nil || len(plan.Later) == 0 {
			return err
		}
		api.patience, api.begun = connectTime, time.Now()
	}
	return nil
}

// perform applies a plan. What it creates is recorded before, so that a run that is killed
// leaves nothing that a later one does not know.
func (d *declaration) perform(cmd *cobra.Command, plan *site.Plan, created *site.Created) error {
	for _, s := range plan.Steps {
		if s.Action == site.Create {
			created.Note(s)
		}
	}
	if err := d.writeCreated(created); err != nil {
		return err
	}
	report := cmd.OutOrStdout()
	if d.output == asJSON {
		report = cmd.ErrOrStderr()
	}
	err := performed(cmd, report, d.env, plan, d.now, created.Note)
	return errors.Join(err, d.writeCreated(created))
}

// performed applies a plan, with its progress on standard error.
func performed(cmd *cobra.Command, report io.Writer, e *Env, plan *site.Plan, now func() time.Time, note func(site.Step)) error {
	stderr := cmd.ErrOrStderr()
	bar, done := newProgress(stderr, e.Terminal(stderr), plan.Changes(), now), 0
	err := plan.Apply(cmd.Context(), func(s site.Step, err error) {
		if err == nil {
			done++
			note(s)
		}
		bar.step(done, 0)
	})
	bar.end()
	if err != nil {
		return fmt.Errorf("%d of %d changes were made; repeat the command to make the others: %w", done, plan.Changes(), err)
	}
	fmt.Fprintf(report, "changes made: %d\n", done)
	return nil
}

// confirm asks before a plan is applied. Without a terminal only one that deletes needs --yes.
func (d *declaration) confirm(cmd *cobra.Command, plan *site.Plan) error {
	if d.yes {
		return nil
	}
	e := d.env
	if d.file == "-" || !e.Terminal(e.Stdin) || !e.Terminal(cmd.ErrOrStderr()) {
		if slices.ContainsFunc(plan.Steps, func(s site.Step) bool { return s.Action == site.Delete }) {
			return usage("the plan deletes something; give --yes to confirm it")
		}
		return nil
	}
	return e.ask(cmd.ErrOrStderr(), fmt.Sprintf("Make these %d changes", plan.Changes()))
}

// ask asks a question at the terminal; the error of another answer than yes reports that
// nothing was changed.
func (e *Env) ask(stderr io.Writer, question string) error {
	fmt.Fprintf(stderr, "%s? [y/N] ", question)
	line, err := bufio.NewReader(e.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return &failure{code: CodeFailed, err: errors.New("nothing was changed")}
	}
	return nil
}

func (d *declaration) read() (*site.Document, error) {
	r, err := d.env.open(d.file, "--file")
	if err != nil {
		return nil, err
	}
	text, err := readAll(r, d.file, maxFile)
	if err != nil {
		return nil, err
	}
	v, err := readDocument(text)
	if err != nil {
		return nil, usage("%s: %w", d.file, err)
	}
	document, err := site.Decode(v)
	if err != nil {
		return nil, usage("%s is not valid:\n%w", d.file, err)
	}
	return document, nil
}

func (t *tree) secrets() site.Secrets {
	return site.Secrets{Variable: func(name string) string { return Variable(t.env.Environ, name) }}
}

// createdPath returns the file that records what was created, "" for none.
func (d *declaration) createdPath() string {
	if d.state != "" || d.file == "-" {
		return d.state
	}
	return d.file + ".created.json"
}

func (d *declaration) readCreated() (*site.Created, error) {
	created, path := site.NewCreated(), d.createdPath()
	text, err := os.ReadFile(path)
	if path == "" || errors.Is(err, os.ErrNotExist) {
		return created, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, created); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return created, nil
}

// writeCreated stores what was created, if there is anything to store.
func (d *declaration) writeCreated(created *site.Created) error {
	path := d.createdPath()
	_, err := os.Stat(path)
	if path == "" || created.Empty() && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	text, err := json.MarshalIndent(created, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(text, '\n'))
}

// print prints a plan: a line for each step, and what it leaves as it is.
func (d *declaration) print(w io.Writer, plan *site.Plan) error {
	if d.output == asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"steps": nonNil(plan.Steps), "compared_later": nonNil(plan.Later), "not_in_file": plan.Extra})
	}
	return printPlan(w, plan)
}

func printPlan(w io.Writer, plan *site.Plan) error {
	var b bytes.Buffer
	for _, s := range plan.Steps {
		fmt.Fprintln(&b, printable(s.String()))
	}
	for _, name := range plan.Later {
		fmt.Fprintf(&b, "what is in %s is compared after that\n", printable(name))
	}
	var extra []string
	for _, kind := range slices.Sorted(maps.Keys(plan.Extra)) {
		extra = append(extra, fmt.Sprintf("%s: %d", kind, plan.Extra[kind]))
	}
	if len(extra) > 0 {
		fmt.Fprintf(&b, "not in the file, and left as they are: %s\n", strings.Join(extra, ", "))
	}
	if plan.Changes() == 0 {
		fmt.Fprintln(&b, "there is nothing to change")
	}
	_, err := b.WriteTo(w)
	return err
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
