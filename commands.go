package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/cli"
	"signalbox/router/manual"
)

// commands returns the command line: the commands for the service and the data directory
// of this machine, which accept the keys of the configuration as flags, and those that call
// the API.
func commands(environ []string, stdin io.Reader) (*cobra.Command, error) {
	root := &cobra.Command{Use: "signalbox", Short: "Manages MQTT brokers, and runs one",
		SilenceUsage: true, SilenceErrors: true, Version: versionText()}
	root.SetVersionTemplate("signalbox {{.Version}}\n")
	pages := manual.New(string(example))
	root.Long = root.Short + "\n\nTopics of the manual, for \"signalbox help TOPIC\":\n" + pages.Topics()
	load := func(cmd *cobra.Command) (appliance.Config, error) { return loadConfig(cmd.Flags(), environ) }
	serve := serveCommand(load)
	serve.SetUsageFunc(serveUsage)
	root.AddGroup(&cobra.Group{ID: localGroup, Title: "Commands for this machine:"})
	for _, cmd := range []*cobra.Command{serve, configCommand(load), healthcheck(load),
		importCommand(load, environ), dataCommand(load), secretCommand(load), backupCommand(load), restoreCommand(load),
		doctorCommand(load), logsCommand(load), supportCommand(load, stdin), upgradeCommand(load)} {
		addConfigFlags(cmd)
		root.AddCommand(cmd)
	}
	root.AddCommand(versionCommand(), manCommand(root))
	if err := cli.AddTo(root, clientEnv(environ, stdin)); err != nil {
		return nil, err
	}
	if err := addExport(root, load, environ); err != nil {
		return nil, err
	}
	if err := addVerify(root, load); err != nil {
		return nil, err
	}
	if err := addCheckDisk(root, load); err != nil {
		return nil, err
	}
	if err := addResetPassword(root, load, environ, stdin); err != nil {
		return nil, err
	}
	root.SetHelpCommand(helpCommand(root, pages))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	refuseUnknown(root)
	return root, nil
}

// localGroup is the group of the commands for this machine, in the help.
const localGroup = "local"

// addConfigFlags adds the flags of the configuration to a command and those below it.
func addConfigFlags(cmd *cobra.Command) {
	cmd.GroupID = localGroup
	cmd.PersistentFlags().String("config", "", "configuration file (YAML)")
	addKeyFlags(cmd.PersistentFlags())
}

func configCommand(load configLoader) *cobra.Command {
	parent := &cobra.Command{Use: "config", Short: "Checks the configuration"}
	parent.AddCommand(&cobra.Command{Use: "check", Short: "Reports whether the configuration is valid", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := load(cmd)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			}
			return err
		}})
	return parent
}

// dataCommand has the commands that repair a data directory.
func dataCommand(load configLoader) *cobra.Command {
	parent := &cobra.Command{Use: "data", Short: "Repairs a data directory whose databases were lost or replaced"}
	for _, c := range []struct {
		use, short string
		do         func(context.Context, appliance.Config, []string) error
	}{
		{"forget NAME...", "Lets the next start create lost databases again, as in \"data forget broker.db\"", appliance.ForgetDatabases},
		{"adopt NAME...", "Accepts databases that were copied into this data directory from another one", appliance.AdoptDatabases},
	} {
		parent.AddCommand(&cobra.Command{Use: c.use, Short: c.short, Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, names []string) error {
				cfg, err := load(cmd)
				if err != nil {
					return err
				}
				if err := c.do(cmd.Context(), cfg, names); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "done: start the service now")
				return nil
			}})
	}
	return parent
}

// secretCommand has the commands for the key of the stored secrets.
func secretCommand(load configLoader) *cobra.Command {
	parent := &cobra.Command{Use: "secret", Short: "Manages the key of the stored secrets"}
	parent.AddCommand(&cobra.Command{Use: "rotate", Short: "Encrypts all stored secrets with a new key; the service must be stopped", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			n, err := appliance.RotateSecret(cmd.Context(), c)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d secrets were encrypted with a new key; back up secret.key, and keep the old key with the older backups of the databases, which need it\n", n)
			return nil
		}})
	return parent
}

// helpCommand shows the help of a command, or a page of the manual, and refuses any
// other topic.
func helpCommand(root *cobra.Command, pages *manual.Manual) *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND | TOPIC]", Short: "Shows the help of a command, or a page of the manual",
		RunE: func(help *cobra.Command, args []string) error {
			if page, ok := pages.Page(strings.Join(args, " ")); ok {
				_, err := fmt.Fprint(help.OutOrStdout(), page.Markdown)
				return err
			}
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return cli.UsageError{Err: fmt.Errorf("there is no command or topic %q; \"signalbox help\" lists them", strings.Join(args, " "))}
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		}}
}

// refuseUnknown makes a command and all below it refuse unknown arguments with exit
// code 2.
func refuseUnknown(cmd *cobra.Command) {
	known := cmd.Args
	if !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		known = cobra.NoArgs
	}
	if known != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := known(cmd, args)
			if _, already := errors.AsType[cli.UsageError](err); already {
				return err
			}
			if err != nil {
				return cli.UsageError{Err: fmt.Errorf("%w%s; see \"%s --help\"", err, meant(cmd, args), cmd.CommandPath())}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		refuseUnknown(c)
	}
}

// meant returns the names of the commands below a command that resemble an argument of it.
func meant(cmd *cobra.Command, args []string) string {
	if len(args) == 0 {
		return ""
	}
	cmd.SuggestionsMinimumDistance = 2
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		return " (did you mean " + strings.Join(names, " or ") + "?)"
	}
	return ""
}
