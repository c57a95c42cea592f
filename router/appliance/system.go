package appliance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"signalbox/broker/storage"
	"signalbox/handlers"
	"signalbox/router/appliance/upgrade"
)

// servicePart is a part of the service that reports whether it is ready.
type servicePart struct {
	name  string
	ready func(context.Context) error
}

func (a *Appliance) addPart(name string, ready func(context.Context) error) {
	a.parts = append(a.parts, servicePart{name, ready})
}

// isReady returns an error if a part is not ready.
func (a *Appliance) isReady(ctx context.Context) error {
	var errs []error
	for _, p := range a.parts {
		errs = append(errs, p.ready(ctx))
	}
	return errors.Join(errs...)
}

// system implements [handlers.System].
type system struct{ *Appliance }

// Describe implements [handlers.System].
func (s system) Describe(ctx context.Context) (handlers.SystemRecord, error) {
	r := handlers.SystemRecord{Version: s.program.Version, Platform: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.GOMAXPROCS(0), PID: os.Getpid(),
		Started: s.started.UTC(), Addresses: append([]string{s.URL}, s.Broker...), Databases: s.describeDatabases(ctx), Parts: []handlers.SystemPart{}}
	var err error
	if r.DataDir, err = filepath.Abs(s.cfg.DataDir); err != nil {
		return r, err
	}
	r.Install, r.Program = installation()
	if text, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		r.Unit, _ = unitOf(string(text))
	}
	for _, p := range s.parts {
		part := handlers.SystemPart{Name: p.name, Ready: true}
		if err := p.ready(ctx); err != nil {
			part.Ready, part.Problem = false, err.Error()
		}
		r.Parts = append(r.Parts, part)
	}
	last, err := upgrade.ReadRecord(s.cfg.DataDir)
	if last != nil && err == nil {
		r.Upgrade = &handlers.SystemUpgrade{State: last.State, Time: last.Time, From: last.From.Version.String(), To: last.To.Version.String()}
	}
	return r, err
}

// describeDatabases returns the databases that exist.
func (s system) describeDatabases(ctx context.Context) []handlers.SystemDatabase {
	all := []handlers.SystemDatabase{}
	for _, name := range append(s.cfg.directory().Databases, historyFile) {
		path := filepath.Join(s.cfg.DataDir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		d := handlers.SystemDatabase{Name: name, Size: info.Size()}
		if log, err := os.Stat(path + "-wal"); err == nil {
			d.Log = log.Size()
		}
		d.Schema, err = storage.Schema(ctx, path)
		if err != nil {
			s.log.WarnContext(ctx, "the schema of a database cannot be read", "database", name, "error", err)
		}
		all = append(all, d)
	}
	return all
}

// installation returns how the program was installed, and its path.
func installation() (kind, path string) {
	path, err := os.Executable()
	if err != nil {
		path = ""
	}
	path = strings.TrimSuffix(path, " (deleted)") // it was replaced
	switch {
	case isPackaged(path):
		return "package", path
	case os.Getpid() == 1:
		return "container", path
	}
	return "program", path
}

// Log implements [handlers.System].
func (s system) Log(count int, least slog.Level) []handlers.LogLine {
	return s.recent.last(count, least)
}

// SupportBundle implements [handlers.System]. One is made at a time, since it reads all databases.
func (s system) SupportBundle(ctx context.Context, o handlers.SupportBundleOptions) (handlers.File, error) {
	if !s.bundling.TryLock() {
		return handlers.File{}, &handlers.Error{Status: 400, Code: handlers.CodeConflict, Message: "another support bundle is being made: try again when it is complete"}
	}
	defer s.bundling.Unlock()
	b, err := SupportBundle(ctx, s.cfg, Support{Examination: Examination{Version: s.program.Version, ConfigFile: s.program.ConfigFile, Offline: o.Offline}, HideNames: o.HideNames, Log: s.recent.text()})
	if err != nil {
		return handlers.File{}, err
	}
	name := BundleName(time.Now())
	var packed bytes.Buffer
	if err := b.Write(&packed, name); err != nil {
		return handlers.File{}, err
	}
	return handlers.File{Name: name + ".tar.gz", Size: int64(packed.Len()), Content: io.NopCloser(&packed)}, nil
}

// BundleName returns the name of a bundle and of the folder in it.
func BundleName(at time.Time) string {
	return "signalbox-support-" + at.UTC().Format("20060102-150405")
}
