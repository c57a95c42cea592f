package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/appliance/doctor"
	"signalbox/router/cli"
)

// The exit codes of doctor.
const (
	codeWarnings = 1
	codeErrors   = 2
)

// doctorCommand finds out what is wrong with the installation on this machine.
func doctorCommand(load configLoader) *cobra.Command {
	var output string
	var strict, fix, offline bool
	cmd := &cobra.Command{Use: "doctor", Short: "Finds out what is wrong with the installation on this machine", Args: cobra.NoArgs,
		Long: "Checks the configuration, the data directory, the databases, the certificates and the connections of this machine's\n" +
			"installation, while the service runs and while it does not. Each line has what was found and what to do. The exit code is\n" +
			"0 if nothing is wrong, 2 after errors and, with --strict, 1 after warnings.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return cli.UsageError{Err: fmt.Errorf("-o: must be table or json, not %q", output)}
			}
			r := examine(cmd, load, offline)
			if fix {
				r.Fix()
			}
			if err := writeReport(cmd.OutOrStdout(), r, output); err != nil {
				return err
			}
			switch {
			case r.Errors > 0:
				return cli.WithCode(codeErrors, errors.New(r.Summary()))
			case r.Warnings > 0 && strict:
				return cli.WithCode(codeWarnings, errors.New(r.Summary()))
			}
			return nil
		}}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`format` of the report: table or json")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 after warnings")
	cmd.Flags().BoolVar(&fix, "fix", false, "correct the modes of files, and delete files that an earlier process has left")
	cmd.Flags().BoolVar(&offline, "offline", false, "connect to no other machine")
	return cmd
}

// examine returns the report. An invalid configuration is all that it is about: the other checks
// need a valid one.
func examine(cmd *cobra.Command, load configLoader, offline bool) *doctor.Report {
	file, _ := cmd.Flags().GetString("config") // "" if there is no such flag
	c, err := load(cmd)
	if err != nil {
		r := &doctor.Report{Version: versionText(), Time: time.Now().UTC()}
		for _, e := range doctor.Each(err) {
			r.Add(doctor.Bad("configuration", file, e.Error(), "correct the configuration; the other checks need a valid one"))
		}
		return r
	}
	return appliance.Examine(cmd.Context(), c, appliance.Examination{Version: versionText(), ConfigFile: file, Offline: offline})
}

func writeReport(w io.Writer, r *doctor.Report, output string) error {
	if output == "table" {
		if err := r.Write(w, cli.Printable); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, r.Summary())
		return err
	}
	to := json.NewEncoder(w)
	to.SetIndent("", "  ")
	to.SetEscapeHTML(false)
	return to.Encode(r)
}
