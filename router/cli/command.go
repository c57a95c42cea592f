package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"signalbox/router"
)

// command is the command of one operation.
type command struct {
	tree *tree
	op   *router.Operation
	name []string // noun and verb

	arguments []*input // by position
	flags     []*input

	connection
	format
	files      []string
	sets       []string
	yes        bool
	all        bool
	bulk       bulk
	standardIn string // the flag that reads standard input
}

// command returns the command of an operation.
func (t *tree) command(op *router.Operation, name []string) (*cobra.Command, error) {
	c := &command{tree: t, op: op, name: name}
	c.collect()
	cmd := &cobra.Command{Use: c.use(), Short: c.summary(), Long: c.long(), RunE: c.run,
		Args: c.checkArguments, ValidArgsFunction: c.completeArgument, DisableFlagsInUseLine: true}
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, in := range c.flags {
		if err := c.addFlag(cmd, in); err != nil {
			return nil, fmt.Errorf("the command of %s: %w", op.ID, err)
		}
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	c.addOwn(own)
	var twice error
	own.VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil {
			twice = fmt.Errorf("the command of %s has two flags --%s", op.ID, f.Name)
			return
		}
		flags.AddFlag(f)
	})
	return cmd, twice
}

// collect sorts parameters and members into arguments and flags.
func (c *command) collect() {
	var inputs []*input
	for _, f := range c.op.PathParameters {
		inputs = append(inputs, &input{in: inPath, field: f})
	}
	for _, f := range c.op.Query {
		inputs = append(inputs, &input{in: inQuery, field: f})
	}
	if c.op.Body != nil {
		for _, f := range c.op.Body.Members {
			inputs = append(inputs, &input{in: inBody, field: f})
		}
	}
	for _, in := range inputs {
		if in.in == inPath && c.named(in.field.Name) {
			c.arguments = append(c.arguments, in)
		}
	}
	if len(c.arguments) == 0 {
		if i := slices.IndexFunc(inputs, c.identifies); i >= 0 {
			c.arguments = inputs[i : i+1]
		} else if len(inputs) == 1 && isNeeded(inputs[0]) {
			c.arguments = inputs
		}
	}
	for _, in := range inputs {
		if !slices.Contains(c.arguments, in) {
			in.flag = flagName(in.field)
			c.flags = append(c.flags, in)
		}
	}
}

// named reports whether a parameter of the path is an argument: a project and a broker
// are flags, unless the command is about them.
func (c *command) named(parameter string) bool {
	switch parameter {
	case "projectId":
		return c.name[0] == "project"
	case "brokerId":
		return c.name[0] == "broker"
	}
	return true
}

// identifies reports whether an input is the name of the object: the first that is needed
// and not a choice.
func (c *command) identifies(in *input) bool { return isNeeded(in) && len(in.field.Enum) == 0 }

// isNeeded reports whether an input is a required text that is not a secret, or a list of
// texts in the query.
func isNeeded(in *input) bool {
	f := in.field
	text := f.Kind == router.Text || in.in == inQuery && f.Kind == router.List
	return in.in != inPath && f.Required && text && !isSecret(f)
}

func (c *command) use() string {
	parts := []string{c.verb()}
	for _, a := range c.arguments {
		parts = append(parts, a.placeholder())
	}
	return strings.Join(append(parts, "[flags]"), " ")
}

// long returns the help above the flags.
func (c *command) long() string {
	text := c.summary() + "."
	if c.op.Description != "" {
		text += "\n\n" + wrap(strings.ReplaceAll(c.op.Description, "`", "'"))
	}
	for _, a := range c.arguments {
		text += "\n\n" + wrap(a.placeholder()+": "+a.usage())
	}
	return text + fmt.Sprintf("\n\nOperation %s: %s %s, minimum role %s.", c.op.ID, c.op.Method, c.op.Path, c.op.Role)
}

// summary returns the operation's, or the half of it that the command is about.
func (c *command) summary() string {
	if _, object, both := strings.Cut(c.op.Summary, "Enable or disable "); both {
		return strings.ToUpper(c.verb()[:1]) + c.verb()[1:] + " " + object
	}
	return c.op.Summary
}

// wrap breaks a text into lines of at most 100 characters.
func wrap(text string) string {
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case width == 0:
			width = n
		case width+1+n > 100:
			b.WriteByte('\n')
			width = n
		default:
			b.WriteByte(' ')
			width += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// addFlag adds the flag of an input, or those of a secret.
func (c *command) addFlag(cmd *cobra.Command, in *input) error {
	flags := cmd.Flags()
	if in.in == inBody && isSecret(in.field) {
		return c.addSecret(flags, in)
	}
	if c.verb() == disableVerb && in.flag == enableVerb {
		in.texts, in.given = []string{"false"}, true
		return nil
	}
	if in.field.Kind == router.Boolean && in.field.Required && in.flag == c.verb() {
		in.texts, in.given, in.preset = []string{"true"}, true, true // "client enable", without --enable
	}
	if flags.Lookup(in.flag) != nil {
		return fmt.Errorf("there are two flags --%s", in.flag)
	}
	f := &pflag.Flag{Name: in.flag, Usage: in.usage(), Value: in, Hidden: in.preset}
	if in.field.Kind == router.Boolean {
		f.NoOptDefVal = "true"
	}
	flags.AddFlag(f)
	return cmd.RegisterFlagCompletionFunc(in.flag, c.completeFlag(in))
}

// addSecret adds a flag for a file with the secret and, for a line of text, one to ask
// for it.
func (c *command) addSecret(flags *pflag.FlagSet, in *input) error {
	name := in.flag + "-file"
	if slices.ContainsFunc(c.flags, func(other *input) bool { return other.flag == name }) {
		name = in.flag + "-from"
	}
	flags.StringVar(&in.file, name, "", "`FILE` on this machine with this value; - is standard input. "+in.usage())
	if in.field.Name != "client_key" {
		flags.BoolVar(&in.ask, "ask-"+in.flag, false, "Ask for the "+in.flag+" at the terminal")
	}
	return nil
}

// addOwn adds the flags that do not belong to the operation.
func (c *command) addOwn(flags *pflag.FlagSet) {
	if c.op.Body != nil {
		flags.StringArrayVarP(&c.files, "file", "f", nil, c.fileUsage())
		if c.op.Body.Kind != router.List {
			flags.StringArrayVar(&c.sets, "set", nil, "Member of the body as `PATH=VALUE`, such as a.b[0]=1; the value is JSON or a text. May be repeated.")
		}
	}
	if c.bulkable() {
		flags.BoolVar(&c.bulk.dryRun, "dry-run", false, "Check the objects of -f without creating them")
		flags.BoolVar(&c.bulk.goOn, "continue", false, "Continue after an object of -f that is refused")
		flags.BoolVar(&c.bulk.skip, "skip-existing", false, "Count objects of -f that exist as done, to repeat an interrupted command")
		flags.IntVar(&c.bulk.parallel, "parallel", usualParallel, "`NUMBER` of objects of -f that are sent at the same time")
	}
	if c.paged() {
		flags.BoolVar(&c.all, "all", false, "Print the whole list instead of its first page")
	}
	if c.destructive() {
		flags.BoolVar(&c.yes, "yes", false, "Do not ask for a confirmation")
	}
	c.format.add(flags, c.op)
	c.connection.add(flags)
}

func (c *command) fileUsage() string {
	text := "`FILE` with the body as JSON or YAML; - is standard input. Flags take precedence over it."
	if c.bulkable() {
		text = "`FILE` with the body as JSON or YAML, or with one JSON object per line to create many; - is standard input. Flags take precedence over it."
	}
	return text
}

// paged reports whether the operation returns a list in pages.
func (c *command) paged() bool {
	return c.query("count") != nil && c.query("offset") != nil || c.query("page") != nil
}

// query returns the parameter of the query with a name, nil if there is none.
func (c *command) query(name string) *input {
	i := slices.IndexFunc(c.flags, func(in *input) bool { return in.in == inQuery && in.field.Name == name })
	if i < 0 {
		return nil
	}
	return c.flags[i]
}

// checkArguments checks the number of the arguments. A name that is a member of the body
// may be in the file instead.
func (c *command) checkArguments(cmd *cobra.Command, args []string) error {
	least, most := len(c.arguments), len(c.arguments)
	if most > 0 && c.arguments[most-1].many() {
		most = len(args) + most
	}
	if len(c.files) > 0 && least > 0 && c.arguments[least-1].in == inBody {
		least--
	}
	if len(args) >= least && len(args) <= most {
		return nil
	}
	return usage("%s expects %s; see \"%s --help\"", cmd.CommandPath(), strings.TrimSpace(strings.TrimPrefix(strings.TrimSuffix(c.use(), "[flags]"), c.verb()))+arguments(most), cmd.CommandPath())
}

func arguments(most int) string {
	if most == 0 {
		return "no arguments"
	}
	return ""
}

// fill sets the inputs from the arguments.
func (c *command) fill(args []string) error {
	for i, text := range args {
		in := c.arguments[min(i, len(c.arguments)-1)]
		if err := in.Set(text); err != nil {
			return usage("%s: %w", in.placeholder(), err)
		}
	}
	return nil
}

// The times of a call: of most operations, and of those with large bodies.
const (
	usualTime = time.Minute
	largeTime = 10 * time.Minute
)

// verb returns the last word of the name.
func (c *command) verb() string { return c.name[len(c.name)-1] }
