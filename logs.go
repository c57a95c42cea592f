package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/cli"
)

// maxLogLines is how many lines are printed at most of what was logged before.
const maxLogLines = 100_000

// logsCommand prints the log of the service.
func logsCommand(load configLoader) *cobra.Command {
	var v appliance.LogView
	var level string
	cmd := &cobra.Command{Use: "logs", Short: "Prints the last lines of log.file and, with -f, those that follow, also after it was rotated", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.Lines < 0 || v.Lines > maxLogLines {
				return cli.UsageError{Err: fmt.Errorf("--lines: must be 0 to %d", maxLogLines)}
			}
			if v.Level.UnmarshalText([]byte(level)) != nil {
				return cli.UsageError{Err: errors.New("--level: must be debug, info, warn or error")}
			}
			c, err := load(cmd)
			if err != nil {
				return err
			}
			return appliance.PrintLog(cmd.Context(), c.Log, v, cmd.OutOrStdout())
		}}
	cmd.Flags().BoolVarP(&v.Follow, "follow", "f", false, "continue until the command is interrupted")
	cmd.Flags().IntVarP(&v.Lines, "lines", "n", 20, "`number` of lines of the present file")
	cmd.Flags().StringVar(&level, "level", "debug", "least `level`: debug, info, warn or error")
	return cmd
}
