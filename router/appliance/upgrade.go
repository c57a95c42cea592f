package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"signalbox/broker/storage"
	"signalbox/router/appliance/backup"
	"signalbox/router/appliance/doctor"
	"signalbox/router/appliance/upgrade"
)

// upgradeDir is the folder in the data directory with the backups made before an upgrade.
const upgradeDir = "upgrade"

// UpgradeOptions are those of an upgrade and of its rollback.
type UpgradeOptions struct {
	Program   string       // path of the program to replace; links are followed
	Version   string       // of this program, for the backup
	Keys      upgrade.Keys // that releases are verified with
	DryRun    bool         // change nothing
	NoRestart bool         // leave the service as it is
	KeepData  bool         // a rollback does not restore the data
}

// Upgraded is the outcome of an upgrade.
type Upgraded struct {
	From, To upgrade.Version
	Already  bool   // the program was the new one already
	Backup   string // path
	Previous string // path of the previous program
	Service  Service
}

// Upgrade replaces the program by that of a release, after the new one has migrated a copy of
// the data and a backup was made. The service may run. Whenever it is interrupted, the program
// is either the previous or the new one, both of which can use the data directory as it is, and
// the same upgrade can be repeated.
func Upgrade(ctx context.Context, c Config, file string, o UpgradeOptions) (*Upgraded, error) {
	return newUpgrading(c, file, o).run(ctx)
}

// upgrading is an upgrade that is in progress.
type upgrading struct {
	c       Config
	file    string
	options UpgradeOptions
	files   upgrade.Files
	step    func(name string) error // called before each step, for tests

	service Service
	before  *upgrade.Record // of the upgrade before
	record  upgrade.Record
	already bool
}

func newUpgrading(c Config, file string, o UpgradeOptions) *upgrading {
	return &upgrading{c: c, file: file, options: o, step: func(string) error { return nil }}
}

func (u *upgrading) run(ctx context.Context) (out *Upgraded, err error) {
	if u.files, err = u.options.locate(); err != nil {
		return nil, err
	}
	unlock, err := lockProgram(u.files.Program)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := u.prepare(ctx); err != nil {
		return nil, err
	}
	if err := u.execute(ctx); err != nil {
		return nil, err
	}
	out = &Upgraded{From: u.record.From.Version, To: u.record.To.Version, Already: u.already,
		Backup: filepath.Join(u.c.DataDir, u.record.Backup), Previous: u.files.Previous, Service: u.service}
	if u.options.DryRun {
		return out, nil
	}
	err = out.Service.restart(ctx, u.options.NoRestart || u.already && out.Service.Runs(u.record.To.Version))
	return out, err
}

// locate returns the program to replace.
func (o UpgradeOptions) locate() (upgrade.Files, error) {
	program, err := filepath.Abs(o.Program)
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return upgrade.Files{}, err
	}
	if !upgrade.CanReplace {
		return upgrade.Files{}, errors.New("this system cannot replace a program that runs: stop the service, make a backup, and copy the new program over the previous one")
	}
	if isPackaged(program) {
		return upgrade.Files{}, fmt.Errorf("%s was installed from a package: install the new package instead, which is in the bundle (apt install ./FILE.deb, dnf install ./FILE.rpm)", program)
	}
	return upgrade.FilesOf(program), nil
}

// isPackaged reports whether a program was installed from a package of the system.
func isPackaged(program string) bool {
	dir := filepath.Dir(program)
	return dir == "/usr/bin" || dir == "/bin"
}

// lockProgram excludes other upgrades of a program.
func lockProgram(program string) (unlock func() error, err error) {
	lock := flock.New(filepath.Dir(program), flock.SetFlag(os.O_RDONLY))
	held, err := lock.TryLock()
	if err == nil && !held {
		err = fmt.Errorf("another upgrade of %s is in progress", program)
	}
	return lock.Unlock, err
}

// prepare finds out what there is, and deletes what an interrupted upgrade has left.
func (u *upgrading) prepare(ctx context.Context) (err error) {
	if u.c.DataDir, err = existingData(u.c.DataDir); err != nil {
		return err
	}
	if u.before, err = upgrade.ReadRecord(u.c.DataDir); err != nil {
		return err
	}
	if u.before != nil && u.before.State == upgrade.RollingBack {
		return errors.New("a rollback was interrupted: complete it with \"signalbox upgrade rollback\"")
	}
	if u.service, err = findService(ctx, u.c, u.files.Program); err != nil {
		return err
	}
	dir := filepath.Join(u.c.DataDir, upgradeDir)
	if err := errors.Join(os.MkdirAll(dir, 0o700), upgrade.OwnLike(dir, u.c.DataDir)); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(dir, ".signalbox-*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return errors.Join(err, u.checkSpace())
}

// existingData returns the path of a data directory without links, or an error if there is
// none.
func existingData(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(real, databaseFile))
	}
	if err != nil {
		return "", fmt.Errorf("there is no database in the data_dir %s; give the configuration of the service with --config, and run the command as its user or as root (%w)", dir, err)
	}
	return real, nil
}

// spareSpace is kept free on each disk.
const spareSpace = 64 << 20

// checkSpace returns an error if the program, or the backup with the copies that it needs, will
// not fit.
func (u *upgrading) checkSpace() error {
	program, err := os.Stat(u.files.Program)
	if err != nil {
		return err
	}
	data := int64(0)
	for _, name := range u.c.allDatabases().Databases {
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(filepath.Join(u.c.DataDir, name+suffix)); err == nil {
				data += info.Size()
			}
		}
	}
	for dir, need := range map[string]int64{filepath.Dir(u.files.Program): 2*program.Size() + spareSpace, u.c.DataDir: 2*data + spareSpace} {
		if free := storage.DiskFree(dir); free >= 0 && free < need {
			return fmt.Errorf("the disk of %s has %s free, and %s are needed: free some space", dir, doctor.Bytes(free), doctor.Bytes(need))
		}
	}
	return nil
}

// upgradeStep is a step of an upgrade or a rollback.
type upgradeStep struct {
	name string
	do   func() error
}

// replaced is the number of the step with which the new program is in its place: until it is, a
// failure leaves everything as it was.
const replaced = 6

func (u *upgrading) execute(ctx context.Context) error {
	steps := []upgradeStep{
		{"verify the release", func() error { return upgrade.Extract(u.file, u.options.Keys, u.files.New) }},
		{"compare the versions", func() error { return u.compare(ctx) }},
		{"back up the data", func() error { return u.backup(ctx) }},
		{"migrate a copy of the data", func() error { return u.migrate(ctx) }},
		{"record the upgrade", func() error { return u.write(upgrade.Replacing) }},
		{"keep the previous program", u.files.Keep},
		{"replace the program", u.files.Replace},
		{"record the end", u.finish},
	}
	if u.options.DryRun {
		steps = steps[:4]
	}
	for i, s := range steps {
		err := u.step(s.name)
		if err == nil {
			err = s.do()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("upgrade: %s: %w", s.name, err), u.undo(i))
		}
		if u.already {
			return errors.Join(os.Remove(u.files.New), u.complete())
		}
	}
	if u.options.DryRun {
		return u.undo(len(steps) - 1)
	}
	return nil
}

// undo removes what was written until step i, unless the program was replaced: then a rollback
// needs it.
func (u *upgrading) undo(i int) error {
	if _, err := os.Stat(u.files.New); i > replaced || i == replaced && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	paths := []string{u.files.New}
	if u.record.Backup != "" {
		paths = append(paths, filepath.Join(u.c.DataDir, u.record.Backup))
	}
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if i >= 4 {
		errs = append(errs, u.before.Write(u.c.DataDir))
	}
	return errors.Join(errs...)
}

// compare refuses a release that is older than the program.
func (u *upgrading) compare(ctx context.Context) (err error) {
	if u.record.From, err = describeProgram(ctx, u.files.Program); err != nil {
		return err
	}
	if u.record.To, err = describeProgram(ctx, u.files.New); err != nil {
		return err
	}
	u.already = u.record.From.SHA256 == u.record.To.SHA256
	order, err := u.record.To.Version.Compare(u.record.From.Version)
	if err == nil && order < 0 {
		err = fmt.Errorf("%s is older than %s, which is installed; only \"signalbox upgrade rollback\" goes back", u.record.To.Version, u.record.From.Version)
	}
	return err
}

func describeProgram(ctx context.Context, path string) (p upgrade.Program, err error) {
	if p.Version, err = upgrade.VersionOf(ctx, path); err != nil {
		return p, err
	}
	p.SHA256, err = upgrade.Sum(path)
	return p, err
}

// backup makes the backup that a rollback restores.
func (u *upgrading) backup(ctx context.Context) error {
	now := time.Now().UTC()
	name := fmt.Sprintf("before-%s-%s.backup", safeName(u.record.To.Version.Name), now.Format("20060102T150405.000Z"))
	u.record.Backup = filepath.Join(upgradeDir, name)
	path := filepath.Join(u.c.DataDir, u.record.Backup)
	if _, err := Backup(ctx, u.c, path, backup.Options{Version: u.options.Version}); err != nil {
		return err
	}
	u.record.Schemas = map[string]int64{}
	for _, database := range append(u.c.allDatabases().Databases, historyFile) {
		path := filepath.Join(u.c.DataDir, database)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			continue
		}
		schema, err := storage.Schema(ctx, path)
		if err != nil {
			return err
		}
		u.record.Schemas[database] = schema
	}
	return upgrade.OwnLike(path, u.c.DataDir)
}

// safeName returns a version as a part of the name of a file.
func safeName(version string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(".-_", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, version)
}

// migrate has the new program open a copy of the data, which migrates it.
func (u *upgrading) migrate(ctx context.Context) error {
	_, err := upgrade.Run(ctx, u.files.New, "backup", "verify", filepath.Join(u.c.DataDir, u.record.Backup))
	if err != nil {
		return fmt.Errorf("the new program cannot use this data, and nothing was changed: %w", err)
	}
	return nil
}

func (u *upgrading) write(state string) error {
	u.record.State, u.record.Time, u.record.Program = state, time.Now().UTC(), u.files.Program
	return u.record.Write(u.c.DataDir)
}

// finish records the end, and deletes the backups of earlier upgrades.
func (u *upgrading) finish() error {
	if err := u.write(upgrade.Installed); err != nil {
		return err
	}
	return u.prune(u.record.Backup)
}

// complete is finish for an upgrade that was interrupted after the program was replaced.
func (u *upgrading) complete() error {
	if u.options.DryRun || u.before == nil || u.before.To.SHA256 != u.record.To.SHA256 || u.before.State != upgrade.Replacing {
		return nil
	}
	u.record = *u.before
	return u.finish()
}

func (u *upgrading) prune(keep string) error {
	all, err := filepath.Glob(filepath.Join(u.c.DataDir, upgradeDir, "before-*.backup"))
	for _, path := range all {
		if filepath.Base(path) != filepath.Base(keep) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// UpgradeState is what is known about the program of this machine and its last upgrade.
type UpgradeState struct {
	Service Service
	Record  *upgrade.Record // nil if there was none
}

// UpgradeStatus returns the state of the service on a data directory.
func UpgradeStatus(ctx context.Context, c Config, program string) (s UpgradeState, err error) {
	if s.Record, err = upgrade.ReadRecord(c.DataDir); err != nil {
		return s, err
	}
	s.Service, err = findService(ctx, c, program)
	return s, err
}
