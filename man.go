package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manPage is the manual page without its commands.
//
//go:embed packaging/signalbox.1
var manPage string

// manCommand prints the manual page with all commands.
func manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{Use: "man", Short: "Prints the manual page: signalbox man >signalbox.1", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return writeMan(cmd.OutOrStdout(), root) }}
}

// manHere is the line of the page that the commands replace.
const manHere = ".\\\" COMMANDS\n"

// commonFlags is the number of commands from which a flag is described once for all of them.
const commonFlags = 20

func writeMan(w io.Writer, root *cobra.Command) error {
	before, after, _ := strings.Cut(manPage, manHere)
	all := described(root)
	count := map[string]int{}
	for _, cmd := range all {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { count[f.Name+f.Usage]++ })
	}
	common := func(f *pflag.Flag) bool { return count[f.Name+f.Usage] >= commonFlags }
	b := &roff{}
	b.WriteString(before + ".SH COMMANDS\n")
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, cmd := range all {
		b.command(cmd)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !common(f) {
				b.flag(f)
			} else if shared.Lookup(f.Name) == nil {
				shared.AddFlag(f)
			}
		})
	}
	b.WriteString(".SH COMMON OPTIONS\nMany commands have these options; the help of each lists its own.\n")
	shared.VisitAll(b.flag)
	b.WriteString(after)
	_, err := io.WriteString(w, b.String())
	return err
}

// described returns the commands that do something, in the order of their names.
func described(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		switch {
		case !c.IsAvailableCommand():
		case c.HasSubCommands():
			all = append(all, described(c)...)
		default:
			all = append(all, c)
		}
	}
	return all
}

// roff is text of a manual page.
type roff struct{ strings.Builder }

// text writes plain text: nothing in it is a request to the formatter.
func (b *roff) text(s string) {
	for _, line := range strings.Split(strings.TrimSpace(s), "\n") {
		line = manEscapes.Replace(line)
		switch {
		case line == "":
			line = ".PP"
		case line[0] == '.' || line[0] == '\'':
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
}

var manEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// command writes the usage of a command, and what it does.
func (b *roff) command(cmd *cobra.Command) {
	b.WriteString(".SS ")
	b.text(strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	text := cmd.Short
	if cmd.Long != "" {
		text = cmd.Long
	}
	b.text(text)
}

// flag writes a flag, unless it is hidden as those are that are keys of the configuration.
func (b *roff) flag(f *pflag.Flag) {
	if f.Hidden || f.Name == "help" {
		return
	}
	name, usage := pflag.UnquoteUsage(f)
	option := "--" + f.Name
	if f.Shorthand != "" {
		option = "-" + f.Shorthand + ", " + option
	}
	b.WriteString(".TP\n.B ")
	b.text(strings.TrimSpace(fmt.Sprint(option, " ", name)))
	b.text(usage)
}
