package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"signalbox/broker/storage"
	"signalbox/router/appliance/backup"
	"signalbox/router/appliance/upgrade"
)

// RolledBack is the outcome of a rollback.
type RolledBack struct {
	From, To upgrade.Version
	Data     string // where the data is that was replaced, "" if it was kept
	Service  Service
}

// RollBack puts the program before the last upgrade back, and the data as it was then. The
// service must be stopped, unless systemd has started it. It can be repeated after an
// interruption.
func RollBack(ctx context.Context, c Config, o UpgradeOptions) (*RolledBack, error) {
	return newRollingBack(c, o).run(ctx)
}

// rollingBack is a rollback that is in progress.
type rollingBack struct {
	c       Config
	options UpgradeOptions
	step    func(name string) error // called before each step, for tests

	files   upgrade.Files
	record  *upgrade.Record
	data    string // where the replaced data is
	service Service
}

func newRollingBack(c Config, o UpgradeOptions) *rollingBack {
	return &rollingBack{c: c, options: o, step: func(string) error { return nil }}
}

func (r *rollingBack) run(ctx context.Context) (out *RolledBack, err error) {
	if err := r.find(); err != nil {
		return nil, err
	}
	unlock, err := lockProgram(r.files.Program)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	out = &RolledBack{From: r.record.To.Version, To: r.record.From.Version}
	if !r.options.DryRun {
		err = r.execute(ctx)
	}
	out.Data, out.Service = r.data, r.service
	return out, err
}

// find reads the record of the last upgrade: in the data directory, or in the one that an
// interrupted rollback has replaced.
func (r *rollingBack) find() (err error) {
	if real, err := filepath.EvalSymlinks(r.c.DataDir); err == nil {
		r.c.DataDir = real
	}
	if r.c.DataDir, err = filepath.Abs(r.c.DataDir); err != nil {
		return err
	}
	if r.record, err = upgrade.ReadRecord(r.c.DataDir); err != nil {
		return err
	}
	replaced := newest(r.c.DataDir + previousMark)
	if r.record == nil && replaced != "" {
		if r.record, err = upgrade.ReadRecord(replaced); err != nil {
			return err
		}
		r.data = replaced
		if r.record != nil && r.record.State != upgrade.RollingBack {
			r.record = nil // that directory was replaced by another restore
		}
	}
	if r.record == nil || r.record.State == upgrade.RolledBack {
		return fmt.Errorf("no upgrade of the data_dir %s is recorded that could be rolled back; give the configuration of the service with --config", r.c.DataDir)
	}
	if r.options.Program == "" || r.record.State == upgrade.RollingBack {
		r.options.Program = r.record.Program
	}
	r.files, err = r.options.locate()
	return err
}

// newest returns the last of the directories whose names begin with a prefix, "" for none.
// The names end with a time.
func newest(prefix string) string {
	entries, err := os.ReadDir(filepath.Dir(prefix))
	if err != nil {
		return ""
	}
	for _, e := range slices.Backward(entries) { // they are sorted
		if strings.HasPrefix(e.Name(), filepath.Base(prefix)) {
			return filepath.Join(filepath.Dir(prefix), e.Name())
		}
	}
	return ""
}

// check refuses a rollback that cannot succeed.
func (r *rollingBack) check(ctx context.Context) (err error) {
	if r.service, err = findService(ctx, r.c, r.files.Program); err != nil {
		return err
	}
	if r.service.Running && (r.service.Unit == "" || r.options.NoRestart) && !r.options.DryRun {
		return fmt.Errorf("%w on %s; stop it for the rollback", ErrRunning, r.c.DataDir)
	}
	if err := r.checkPrograms(); err != nil {
		return err
	}
	if r.record.State == upgrade.RollingBack {
		r.options.KeepData = r.record.KeepData
		return nil
	}
	if r.options.KeepData {
		return r.checkSchemas(ctx)
	}
	if _, err := os.Stat(filepath.Join(r.c.DataDir, clusterFile)); err == nil {
		return errors.New("the broker is a node of a cluster, whose data must not be put back: keep the data with --keep-data, or leave the cluster before")
	}
	return nil
}

// checkPrograms refuses to replace a program that is not that of the upgrade, or to put back one that is
// not the previous one.
func (r *rollingBack) checkPrograms() error {
	now, err := upgrade.Sum(r.files.Program)
	if err != nil {
		return err
	}
	if now == r.record.From.SHA256 && r.record.State == upgrade.Replacing {
		return errors.New("the upgrade was interrupted before the program was replaced: there is nothing to roll back")
	}
	switch now {
	case r.record.From.SHA256: // an interrupted rollback has put it back
	case r.record.To.SHA256:
		previous, err := upgrade.Sum(r.files.Previous)
		if err != nil {
			return fmt.Errorf("the previous program is missing: %w", err)
		}
		if previous != r.record.From.SHA256 {
			return fmt.Errorf("%s is not the program of version %s, which was replaced", r.files.Previous, r.record.From.Version)
		}
	default:
		return fmt.Errorf("%s is neither the program of the last upgrade nor the one before it: it was replaced since then", r.files.Program)
	}
	return nil
}

// checkSchemas refuses to keep databases that the previous program cannot open.
func (r *rollingBack) checkSchemas(ctx context.Context) error {
	for name, before := range r.record.Schemas {
		if name == historyFile { // of which a new one is begun
			continue
		}
		schema, err := storage.Schema(ctx, filepath.Join(r.c.DataDir, name))
		if err != nil {
			return err
		}
		if schema > before {
			return fmt.Errorf("%s has schema %d, and version %s can open %d at most: leave out --keep-data", name, schema, r.record.From.Version, before)
		}
	}
	return nil
}

func (r *rollingBack) execute(ctx context.Context) error {
	steps := []upgradeStep{
		{"record the rollback", r.begin},
		{"stop the service", func() error { return r.stop(ctx) }},
		{"restore the data", func() error { return r.restore(ctx) }},
		{"complete the data", r.complete},
		{"put the previous program back", r.revert},
		{"record the end", func() error { return r.write(r.c.DataDir, upgrade.RolledBack) }},
		{"start the service", func() error { return r.start(ctx) }},
	}
	for _, s := range steps {
		err := r.step(s.name)
		if err == nil {
			err = s.do()
		}
		if err != nil {
			return fmt.Errorf("rollback: %s: %w; repeat \"signalbox upgrade rollback\" when the cause is removed", s.name, err)
		}
	}
	return nil
}

func (r *rollingBack) stop(ctx context.Context) error {
	if !r.service.Running {
		return nil
	}
	return r.service.systemctl(ctx, "stop")
}

// unitName is what the name of a service of systemd looks like (systemd.unit(5)).
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.@][A-Za-z0-9:_.\\@-]*\.service$`)

// start starts the unit that was stopped, maybe before an interruption.
func (r *rollingBack) start(ctx context.Context) error {
	if r.record.Unit == "" {
		return nil
	}
	if !unitName.MatchString(r.record.Unit) { // the service may write to its record
		return fmt.Errorf("the record of the upgrade names no service of systemd but %q: start the service yourself", r.record.Unit)
	}
	r.service.Unit, r.service.user, r.service.Restarted = r.record.Unit, r.record.UserUnit, true
	return r.service.systemctl(ctx, "start")
}

func (r *rollingBack) write(dir, state string) error {
	r.record.State, r.record.Time = state, time.Now().UTC()
	return r.record.Write(dir)
}

func (r *rollingBack) begin() error {
	if r.record.State == upgrade.RollingBack {
		return nil
	}
	r.record.KeepData, r.record.Unit, r.record.UserUnit = r.options.KeepData, r.service.Unit, r.service.user
	return r.write(r.c.DataDir, upgrade.RollingBack)
}

// restore puts the backup in the place of the data directory, or completes that.
func (r *rollingBack) restore(ctx context.Context) error {
	if r.options.KeepData {
		return nil
	}
	if r.data != "" { // the directory was moved by an interrupted rollback
		if _, err := os.Stat(r.c.DataDir); err == nil {
			return nil
		}
		restored := newest(r.c.DataDir + restoredMark)
		if restored == "" {
			return fmt.Errorf("%s does not exist, and neither does what was to take its place: rename %s to it", r.c.DataDir, r.data)
		}
		return errors.Join(os.Rename(restored, r.c.DataDir), storage.SyncDir(filepath.Dir(r.c.DataDir)))
	}
	restored, err := Restore(ctx, r.c, filepath.Join(r.c.DataDir, r.record.Backup), backup.Identities{}, RestoreOptions{})
	if err != nil {
		return err
	}
	r.data = restored.Previous
	return nil
}

// complete copies what no backup without encryption has from the replaced data: certificates
// with their keys, and the first passwords.
func (r *rollingBack) complete() error {
	if r.options.KeepData {
		return nil
	}
	for _, name := range []string{"certs", keyFile, keyFile + ".next", "initial-credentials"} {
		if err := copyMissing(filepath.Join(r.data, name), filepath.Join(r.c.DataDir, name)); err != nil {
			return err
		}
	}
	return upgrade.OwnLike(r.c.DataDir, r.data)
}

// copyMissing copies a file, or those in a folder, where there is none of that name.
func copyMissing(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if _, err := os.Stat(target); err == nil {
			return nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return err // of a link to a folder, nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		return writeDurably(target, string(text))
	})
}

// revert puts the previous program back, unless that was done.
func (r *rollingBack) revert() error {
	now, err := upgrade.Sum(r.files.Program)
	if err != nil || now == r.record.From.SHA256 {
		return err
	}
	return r.files.Revert()
}
