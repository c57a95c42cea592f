package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"signalbox/router/appliance"
	"signalbox/router/client"
)

type configLoader func(*cobra.Command) (appliance.Config, error)

func serveCommand(load configLoader) *cobra.Command {
	return &cobra.Command{Use: "serve", Short: "Runs the service", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			if c.Backup.Settings, err = maskedConfig(cmd); err != nil {
				return err
			}
			to, err := appliance.OpenLog(c.Log, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			c.Log.Leveler = to.Level
			defer to.Close() //nolint:errcheck // nothing more is logged

			file, _ := cmd.Flags().GetString("config") // "" if there is no such flag
			err = serve(cmd.Context(), c, file, cmd.OutOrStdout(), to)
			if err != nil && c.Log.File != "" {
				to.Logger.Error("the service ended", "error", err)
			}
			return err
		}}
}

// serve runs the service with a configuration, which is from a file or from none, until ctx is done or its
// files are lost.
func serve(ctx context.Context, c appliance.Config, file string, out io.Writer, to *appliance.Log) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	log := to.Logger
	tellLimit := limitMemory(memlimit.FromCgroup, log)
	collectAsUsual := growHeap()
	a, err := appliance.Start(ctx, c, appliance.Program{Version: versionText(), ConfigFile: file, ConfigExample: string(example)}, log)
	collectAsUsual()
	if err != nil && ctx.Err() != nil {
		log.Info("stopped before the start was complete", "cause", err)
		return nil
	}
	if err != nil {
		return err
	}
	tellLimit()
	a.Greet(out, isTerminal(out))
	notify(log, daemon.SdNotifyReady)
	startWatchdog(ctx, a.AwaitAnswers, log)
	for {
		select {
		case <-ctx.Done():
			log.Info("stopping")
			notify(log, daemon.SdNotifyStopping)
			return a.Stop()
		case err := <-a.Lost():
			notify(log, daemon.SdNotifyStopping)
			stopAfterLoss(a, log)
			return err
		case err := <-a.Failed():
			notify(log, daemon.SdNotifyStopping)
			stopAfterLoss(a, log)
			return err
		case <-hangups:
			notify(log, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
			reload(a, to)
			notify(log, daemon.SdNotifyReady)
		}
	}
}

// stopAfterLoss stops a service whose files are lost, or whose start has failed; further failures are a
// consequence.
func stopAfterLoss(a *appliance.Appliance, log *slog.Logger) {
	if err := a.Stop(); err != nil {
		log.Warn("the stop was not complete", "error", err)
	}
}

// reload is the reaction to SIGHUP.
func reload(a *appliance.Appliance, to *appliance.Log) {
	if err := to.Reopen(); err != nil {
		to.Logger.Error("the log file cannot be reopened; logging continues to the file that is open", "error", err)
	}
	a.Reload()
	to.Logger.Info("certificates and log file were reloaded")
}

func healthcheck(load configLoader) *cobra.Command {
	return &cobra.Command{Use: "healthcheck", Short: "Reports whether the running service is healthy", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			address, err := appliance.Address(c)
			if err != nil {
				return fmt.Errorf("find the service: %w", err)
			}
			return client.Local(address, c.HTTP.TLS.CertFile != "").Healthcheck(cmd.Context())
		}}
}
