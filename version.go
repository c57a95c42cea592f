package main

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"signalbox/router/cli"
	"signalbox/router/components"
)

// versionCommand prints the version, or what the program is composed of.
func versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Prints the version, the modules that are built in, or their licences", Args: cobra.NoArgs}
	sbom := cmd.Flags().Bool("sbom", false, "print the modules that are built in as a bill of materials (CycloneDX, JSON)")
	licences := cmd.Flags().Bool("licenses", false, "print the licences of the modules that are built in")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *sbom && *licences {
			return cli.UsageError{Err: errors.New("--sbom and --licenses cannot be used together")}
		}
		if !*sbom && !*licences {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "signalbox", versionText())
			return err
		}
		program, ok := debug.ReadBuildInfo()
		if !ok {
			return errors.New("the program does not record its modules: build it with scripts/build")
		}
		all, err := components.Of(program)
		if err != nil {
			return err
		}
		if *sbom {
			return components.WriteSBOM(cmd.OutOrStdout(), components.Program{Version: version, Date: date}, all)
		}
		return components.WriteLicences(cmd.OutOrStdout(), all)
	}
	return cmd
}

func versionText() string {
	if version != "" {
		return fmt.Sprintf("%s (commit %s, %s)", version, commit, date)
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
