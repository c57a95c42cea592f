// Package cli makes the commands that call the HTTP API from the route table: one for
// each operation, with its flags, its help and its output.
//
// It must not import net/http, nor read the environment: package client makes the calls,
// and package main fills [Env].
package cli

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router"
	"signalbox/router/client"
)

// Env is what the commands use of the process. All fields but ConfigDir are required.
type Env struct {
	Environ   []string
	ConfigDir string // of the user, which has the contexts; "" if it is not known
	Stdin     io.Reader

	// Terminal reports whether a reader or writer is a terminal.
	Terminal func(any) bool
	// ReadPassword reads a line from the terminal without echo.
	ReadPassword func() ([]byte, error)
	// Local returns how to reach the service on this machine.
	Local func() (client.Options, error)
}

// The variables of the environment that the commands read.
const (
	URLVariable     = "SIGNALBOX_URL"
	TokenVariable   = "SIGNALBOX_TOKEN"
	ContextVariable = "SIGNALBOX_CONTEXT"
)

// Variable returns a variable of an environment, "" if it is not set.
func Variable(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// tree has the commands of all operations.
type tree struct {
	env *Env
	ops []router.Operation
	now func() time.Time
}

// group is the group of the commands that call the API, in the help.
const group = "api"

// AddTo adds the commands of all operations, and those of contexts, to the root.
func AddTo(root *cobra.Command, env *Env) error {
	ops, err := router.Operations()
	if err != nil {
		return err
	}
	t := &tree{env: env, ops: ops, now: time.Now}
	root.AddGroup(&cobra.Group{ID: group, Title: "Commands that call the API of a service:"})
	return t.addTo(root)
}

func (t *tree) addTo(root *cobra.Command) error {
	nouns, err := nounsOf(t.ops)
	if err != nil {
		return err
	}
	parents := map[string]*cobra.Command{}
	for i := range t.ops {
		op := &t.ops[i]
		name := nouns[op.ID]
		if len(name) == 0 {
			continue
		}
		cmd, err := t.command(op, name)
		if err != nil {
			return err
		}
		if len(name) == 1 {
			cmd.GroupID = group
			root.AddCommand(cmd)
			continue
		}
		parent := parents[name[0]]
		if parent == nil {
			parent = &cobra.Command{Use: name[0], Short: "Commands for " + op.Tag, GroupID: group}
			parents[name[0]] = parent
			root.AddCommand(parent)
		}
		parent.AddCommand(cmd)
		if name[1] == enableVerb {
			if cmd, err = t.command(op, []string{name[0], disableVerb}); err != nil {
				return err
			}
			parent.AddCommand(cmd)
		}
	}
	describeParents(parents)
	root.AddCommand(t.contextCommand(), t.statusCommand(), t.checkCommand(),
		t.tailCommand(), t.pubCommand(), t.topCommand(), t.benchCommand(),
		t.applyCommand(), t.diffCommand(), t.exportCommand(), t.mirrorCommand())
	return nil
}

// describeParents names the verbs in the short help of each noun.
func describeParents(parents map[string]*cobra.Command) {
	for _, parent := range parents {
		var verbs []string
		for _, c := range parent.Commands() {
			verbs = append(verbs, c.Name())
		}
		parent.Short = strings.Join(verbs, ", ")
	}
}
