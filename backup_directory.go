package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/appliance/backup"
	"signalbox/router/appliance/doctor"
	"signalbox/router/cli"
)

// createInDirectory makes a verified backup in the directory of the configuration.
func createInDirectory(cmd *cobra.Command, c appliance.Config) (err error) {
	for _, flag := range []string{"recipient", "passphrase-file", "with-key"} {
		if cmd.Flags().Changed(flag) {
			return cli.UsageError{Err: fmt.Errorf("--%s: needs FILE; a backup in backup.directory is encrypted as the configuration states (backup.recipients, backup.with_key)", flag)}
		}
	}
	if c.Backup.Settings, err = maskedConfig(cmd); err != nil {
		return err
	}
	e, err := appliance.CreateBackup(cmd.Context(), c, versionText(), appliance.LowerPriority)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "wrote %s to %s and verified it, %s\n", e.Name, c.Backup.Directory, doctor.Bytes(e.Size))
	return nil
}

// listedBackup is a backup as JSON.
type listedBackup struct {
	Name  string       `json:"name"`
	State backup.State `json:"state"`
	backup.Record
}

func backupList(load configLoader) *cobra.Command {
	var output string
	cmd := &cobra.Command{Use: "list", Short: "Lists the backups in backup.directory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return cli.UsageError{Err: fmt.Errorf("-o: must be table or json, not %q", output)}
			}
			c, err := load(cmd)
			if err != nil {
				return err
			}
			d, err := appliance.BackupDirectory(c)
			if err != nil {
				return err
			}
			all, err := d.List()
			if err != nil {
				return err
			}
			return writeBackups(cmd.OutOrStdout(), all, output)
		}}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`format`: table or json")
	return cmd
}

func writeBackups(w io.Writer, all []backup.Entry, output string) error {
	if output == "json" {
		list := make([]listedBackup, 0, len(all))
		for _, e := range all {
			list = append(list, listedBackup{e.Name, e.State, e.Record})
		}
		to := json.NewEncoder(w)
		to.SetIndent("", "  ")
		return to.Encode(list)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tAGE\tSIZE\tSTATE\tENCRYPTED")
	for _, e := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%t\n", e.Name, time.Since(e.Time).Round(time.Second), doctor.Bytes(e.Size), e.State, e.Encrypted)
	}
	return table.Flush()
}

func backupPrune(load configLoader) *cobra.Command {
	var keep string
	var dryRun bool
	cmd := &cobra.Command{Use: "prune", Short: "Removes the backups in backup.directory that need not be kept", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("keep") {
				keep = c.Backup.Keep
			}
			rules, err := backup.ParseKeep(keep)
			if err != nil {
				return cli.UsageError{Err: fmt.Errorf("--keep: %w", err)}
			}
			d, err := appliance.BackupDirectory(c)
			if err != nil {
				return err
			}
			removed, err := d.Prune(rules, dryRun)
			verb := "removed"
			if dryRun {
				verb = "would remove"
			}
			for _, e := range removed {
				fmt.Fprintln(cmd.OutOrStdout(), verb, e.Name)
			}
			return err
		}}
	cmd.Flags().StringVar(&keep, "keep", "", "`list` such as 7d,4w,12m: keep the newest backup of each of the last so many days, weeks and months; also h for hours and y for years; backup.keep by default")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "report what would be removed, and change nothing")
	return cmd
}
