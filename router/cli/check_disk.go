package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"signalbox/broker/thresholds"
)

// DiskCheck returns the check of the free space of a disk of this machine, in bytes, which a
// function measures.
func DiskCheck(measure func(*cobra.Command) (free int64, dir string, err error)) *cobra.Command {
	timeout := checkTime
	disk := check{name: "disk", short: "Check the free space of the disk with the data directory, on this machine", label: "free", unit: "MiB that are free", warn: thresholds.DiskWarning >> 20, crit: thresholds.DiskCritical >> 20, low: true}
	return disk.command(&timeout, func(ctx context.Context, cmd *cobra.Command) (int64, string, error) {
		var (
			free int64
			dir  string
			err  error
		)
		done := make(chan struct{})
		go func() { // a file system of the network may not respond
			defer close(done)
			free, dir, err = measure(cmd)
		}()
		select {
		case <-ctx.Done():
			return 0, "", fmt.Errorf("the disk does not respond within %s", timeout)
		case <-done:
		}
		free >>= 20
		return free, fmt.Sprintf("%d MiB are free on the disk of %s", free, dir), err
	})
}
