package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/appliance/upgrade"
)

// The public keys of minisign that releases are verified with, stamped by scripts/build.
var releaseKey, changeKey string

// upgradeCommand has the commands that replace the program of this machine.
func upgradeCommand(load configLoader) *cobra.Command {
	o := appliance.UpgradeOptions{Version: versionText()}
	var key string
	parent := &cobra.Command{Use: "upgrade FILE", Short: "Replaces the program by that of a signed release, also while the service runs, and goes back", Args: cobra.ExactArgs(1),
		Long: "Replaces the program by that of a release: a bundle, or a program with its signature FILE.minisig beside it. The signature,\n" +
			"the checksums, the platform and the version are verified, the new program migrates a copy of the data, and a backup is made\n" +
			"before anything is changed. Then systemd restarts the service, if it has started it.",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			if o.Program, err = ownProgram(o.Program); err != nil {
				return err
			}
			o.Keys = upgrade.Keys{Release: releaseKey, Change: changeKey}
			if key != "" {
				if o.Keys, err = upgrade.ReadKeys(key); err != nil {
					return err
				}
			}
			u, err := appliance.Upgrade(cmd.Context(), c, args[0], o)
			if err != nil {
				return err
			}
			reportUpgrade(cmd.OutOrStdout(), u, o.DryRun)
			return nil
		}}
	parent.Flags().StringVar(&key, "key", "", "`file` with the public key of minisign to verify with, instead of that which was built in")
	changes(parent, &o)
	parent.AddCommand(upgradeRollback(load), upgradeStatus(load))
	return parent
}

// changes adds the flags of the commands that replace the program.
func changes(cmd *cobra.Command, o *appliance.UpgradeOptions) {
	cmd.Flags().StringVar(&o.Program, "program", "", "the program to replace, if it is not this one: a `path`")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "verify everything, and change nothing")
	cmd.Flags().BoolVar(&o.NoRestart, "no-restart", false, "leave the service as it is")
}

// ownProgram returns the path of a program, by default this one.
func ownProgram(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	return os.Executable()
}

func reportUpgrade(out io.Writer, u *appliance.Upgraded, dryRun bool) {
	switch {
	case u.Already:
		fmt.Fprintf(out, "version %s is installed already\n", u.To)
	case dryRun:
		fmt.Fprintf(out, "would replace version %s by %s: the release is genuine, and a copy of the data was migrated\n", u.From, u.To)
		return
	default:
		fmt.Fprintf(out, "replaced version %s by %s\nthe previous program is %s, and the data as it was %s\n", u.From, u.To, u.Previous, u.Backup)
	}
	reportService(out, u.Service, u.To)
}

func reportService(out io.Writer, s appliance.Service, v upgrade.Version) {
	switch {
	case s.Restarted:
		fmt.Fprintf(out, "systemd has restarted %s\n", s.Unit)
	case s.Running && !s.Runs(v):
		fmt.Fprintln(out, "the service still runs the program from before: restart it")
	case !s.Running:
		fmt.Fprintln(out, "the service does not run: start it")
	}
}

func upgradeRollback(load configLoader) *cobra.Command {
	o := appliance.UpgradeOptions{Version: versionText()}
	cmd := &cobra.Command{Use: "rollback", Short: "Puts the program and the data from before the last upgrade back", Args: cobra.NoArgs,
		Long: "Puts the program and the data from before the last upgrade back. What the service has stored since is lost with the data, which\n" +
			"is kept beside the data directory. The service must be stopped, unless systemd has started it: then it is restarted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			r, err := appliance.RollBack(cmd.Context(), c, o)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if o.DryRun {
				fmt.Fprintf(out, "would replace version %s by %s\n", r.From, r.To)
				return nil
			}
			fmt.Fprintf(out, "replaced version %s by %s\n", r.From, r.To)
			if r.Data != "" {
				fmt.Fprintf(out, "the data is as it was before the upgrade; what it was until now is in %s: delete it when you no longer need it\n", r.Data)
			}
			reportService(out, r.Service, r.To)
			return nil
		}}
	changes(cmd, &o)
	cmd.Flags().BoolVar(&o.KeepData, "keep-data", false, "put the program back only; refused if it cannot open the data of the new one")
	return cmd
}

func upgradeStatus(load configLoader) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Shows the version that is installed, the one that runs, and the last upgrade", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			program, err := ownProgram("")
			if err != nil {
				return err
			}
			s, err := appliance.UpgradeStatus(cmd.Context(), c, program)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "this program  %s\n", versionText())
			if s.Service.Running {
				fmt.Fprintf(out, "service runs  %s\n", s.Service.Version)
			} else {
				fmt.Fprintln(out, "service       does not run")
			}
			if r := s.Record; r != nil {
				fmt.Fprintf(out, "last upgrade  from %s to %s: %s since %s\n", r.From.Version, r.To.Version, r.State, r.Time.Format(time.RFC3339))
			} else {
				fmt.Fprintln(out, "last upgrade  none is recorded")
			}
			return nil
		}}
}
