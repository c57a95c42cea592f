package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify sends a state to the service manager that started the process, as with systemd's
// Type=notify. Without one it does nothing.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager cannot be notified; check NOTIFY_SOCKET", "state", state, "error", err)
	}
}

// startWatchdog sends WATCHDOG=1 at twice the rate that the service manager asks for,
// each time after answers has returned, until ctx is done. What answers found does not
// matter: a restart ends a deadlock, but cures neither a full disk nor a damaged file.
// The end is not waited for, since a deadlock would prevent it.
func startWatchdog(ctx context.Context, answers func(context.Context), log *slog.Logger) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of the service manager is not used; check WATCHDOG_USEC", "error", err)
	}
	if limit > 0 {
		go sendAlive(ctx, limit/2, answers, log)
	}
}

// sendAlive sends WATCHDOG=1 once in each interval, until ctx is done.
func sendAlive(ctx context.Context, interval time.Duration, answers func(context.Context), log *slog.Logger) {
	next := time.NewTicker(interval)
	defer next.Stop()
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, interval/2)
		answers(bounded)
		cancel()
		notify(log, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
}
