package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
)

// addVerify adds the verification of the audit log on this machine to the commands that read it
// over the API.
func addVerify(root *cobra.Command, load configLoader) error {
	parent, _, err := root.Find([]string{"audit"})
	if err != nil {
		return err
	}
	var key string
	var files []string
	verify := &cobra.Command{Use: "verify", Short: "Reports whether rows of the audit log were changed or deleted, also while the service runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			var notes [][]byte
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				notes = append(notes, text)
			}
			v, err := appliance.VerifyAudit(cmd.Context(), cfg, key, notes)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the audit log is intact: rows %d to %d, %d checkpoints\n", v.First, v.Last, v.Checkpoints)
			return nil
		}}
	verify.Flags().StringVar(&key, "key", "", "public key of the checkpoints that was kept elsewhere; by default those in the database")
	verify.Flags().StringArrayVar(&files, "checkpoint", nil, "`file` with a checkpoint that was kept elsewhere; may be given several times")
	addLocal(parent, verify)
	return nil
}

// addLocal adds a command for this machine to those of a noun that call the API.
func addLocal(parent, cmd *cobra.Command) {
	addConfigFlags(cmd)
	cmd.GroupID = ""
	parent.AddCommand(cmd)
	verbs := append(strings.Split(parent.Short, ", "), cmd.Name())
	slices.Sort(verbs)
	parent.Short = strings.Join(verbs, ", ")
}
