package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/cli"
)

// addCheckDisk adds the check of the disk of this machine to those that call the API.
func addCheckDisk(root *cobra.Command, load configLoader) error {
	parent, _, err := root.Find([]string{"check"})
	if err != nil {
		return err
	}
	cmd := cli.DiskCheck(func(cmd *cobra.Command) (free int64, dir string, err error) {
		c, err := load(cmd)
		if err != nil {
			return 0, "", err
		}
		if free = appliance.DiskFree(c); free < 0 {
			err = fmt.Errorf("data_dir: the free space on the disk of %s cannot be determined; name the configuration of the service with --config", c.DataDir)
		}
		return free, c.DataDir, err
	})
	addConfigFlags(cmd)
	cmd.GroupID = ""
	parent.AddCommand(cmd)
	return nil
}
