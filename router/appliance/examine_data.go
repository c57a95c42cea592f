package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/embedded"
	"signalbox/broker/storage"
	"signalbox/db"
	"signalbox/handlers/vault"
	"signalbox/router/appliance/doctor"
)

// files checks access to the files, and what earlier processes have left.
func (e *examination) files(context.Context) []doctor.Finding {
	return doctor.Directory{Path: e.c.DataDir, Secret: []string{keyFile}, Certificates: "certs",
		Temporary: []string{"*.new", ".key-*", ".fsync-*", ".space-*", "*.partial"}, OfRun: []string{addressFile, diagnosticsFile},
		Advice: map[string]string{
			"initial-credentials": "has the generated passwords: note them",
			keyFile + ".next":     "a change of the key was interrupted: complete it with \"signalbox secret rotate\"",
		}}.Files(e.running)
}

// DiskFree returns how many bytes are free on the disk of the data directory, -1 if that cannot
// be determined.
func DiskFree(c Config) int64 { return storage.DiskFree(c.DataDir) }

// disk needs as much free space as a node of a cluster, also without one.
func (e *examination) disk(context.Context) []doctor.Finding {
	return doctor.Disk(e.c.DataDir, e.c.Cluster.MinFreeDisk)
}

// databases can be opened by this release, and are not damaged.
func (e *examination) databases(ctx context.Context) (found []doctor.Finding) {
	for _, name := range append(e.c.directory().Databases, historyFile) {
		if info, err := os.Stat(filepath.Join(e.c.DataDir, name)); err == nil && info.Size() > 0 {
			found = append(found, e.database(ctx, name, info.Size()))
		}
	}
	return found
}

func (e *examination) database(ctx context.Context, name string, size int64) doctor.Finding {
	path := filepath.Join(e.c.DataDir, name)
	if err := checkDatabase(ctx, e.c, name); err != nil {
		return doctor.Failed("databases", name, err)
	}
	schema, err := storage.Schema(ctx, path)
	if err == nil {
		err = storage.QuickCheck(ctx, path)
	}
	if err != nil {
		return doctor.Failed("databases", name, err)
	}
	text := fmt.Sprintf("is not damaged: schema %d, %s", schema, doctor.Bytes(size))
	wal, err := os.Stat(path + "-wal")
	if err != nil || wal.Size() == 0 {
		return doctor.Good("databases", name, "%s", text)
	}
	text += ", and a log of " + doctor.Bytes(wal.Size())
	if wal.Size() > maxWAL {
		return doctor.Warn("databases", name, text, "restart the service, which writes the log back; if it grows again, look for a process that keeps the database open, such as a copy")
	}
	return doctor.Good("databases", name, "%s", text)
}

// maxWAL is far more than what a database keeps of its log.
const maxWAL = 1 << 30

// identity checks that no database was lost, or comes from elsewhere.
func (e *examination) identity(ctx context.Context) []doctor.Finding {
	err := e.c.directory().Check(ctx)
	for _, f := range e.findings {
		if err != nil && f.Level == doctor.Error && f.Check == "databases" {
			return nil // the cause was reported
		}
	}
	return doctor.FailedEach("identity", "", err, "all databases are present, and belong to this directory")
}

// secrets can be opened with the key.
func (e *examination) secrets(ctx context.Context) []doctor.Finding {
	n, err := e.countSecrets(ctx, func(sealed, _ []byte) ([]byte, error) { return sealed, nil })
	if err != nil {
		return doctor.FailedEach("secrets", "", err, "")
	}
	path := filepath.Join(e.c.DataDir, keyFile)
	if _, err := os.Stat(path); n == 0 && errors.Is(err, fs.ErrNotExist) {
		return []doctor.Finding{doctor.Good("secrets", "", "none are stored")}
	}
	if e.vault, err = vault.Open(path, false); err != nil {
		return []doctor.Finding{doctor.Failed("secrets", keyFile, err)}
	}
	if _, err := e.countSecrets(ctx, e.unsealer(ctx)); err != nil {
		wrong := doctor.Each(err)
		return []doctor.Finding{doctor.Bad("secrets", keyFile, fmt.Sprintf("%d of %d secrets cannot be decrypted, the first of them: %v", len(wrong), n, wrong[0]),
			"put the key file back that belongs to these databases; otherwise set the passwords of the broker connections, and the configurations of the bridges, anew")}
	}
	return []doctor.Finding{doctor.Good("secrets", keyFile, "decrypts all %d secrets that are stored", n)}
}

// unsealer returns what opens all secrets: with the key of this machine, and with the keys of the
// database that this opens.
func (e *examination) unsealer(ctx context.Context) func(sealed, aad []byte) ([]byte, error) {
	if !e.hasDatabase() {
		return e.vault.Unseal
	}
	var keys *sharedKeys
	err := db.View(ctx, filepath.Join(e.c.DataDir, databaseFile), func(d *db.DB) (err error) {
		keys, err = openKeys(ctx, d, e.vault)
		return err
	})
	if err != nil { // which is found again when the keys themselves are opened
		return e.vault.Unseal
	}
	return keys.Unseal
}

// countSecrets opens all secrets with unseal. Its error has one for each that cannot be opened.
func (e *examination) countSecrets(ctx context.Context, unseal func(sealed, aad []byte) ([]byte, error)) (n int, err error) {
	in := func(name string) string { return filepath.Join(e.c.DataDir, name) }
	if e.hasDatabase() {
		err = db.View(ctx, in(databaseFile), func(d *db.DB) (err error) {
			all, err := d.ListSecrets(ctx)
			for _, s := range all {
				if _, failed := unseal(s.Secrets, []byte(s.ID)); failed != nil {
					err = errors.Join(err, fmt.Errorf("that of %s: %w", s.ID, failed))
				}
			}
			n = len(all)
			return err
		})
	}
	ofBridges, failed := bridgestore.CheckSecrets(ctx, in(bridgesFile), unseal)
	err, n = errors.Join(err, failed), n+ofBridges
	stored, failed := embedded.ReadCluster(ctx, e.c.DataDir)
	if failed != nil {
		return n, errors.Join(err, failed)
	}
	ofCluster, failed := stored.CheckSecrets(unseal)
	return n + ofCluster, errors.Join(err, failed)
}

// hasDatabase reports whether the service's own database can be read.
func (e *examination) hasDatabase() bool {
	for _, f := range e.findings {
		if f.Check == "databases" && f.Object == databaseFile {
			return f.Level == doctor.OK
		}
	}
	return false
}

// audit verifies the chain of the audit log.
func (e *examination) audit(ctx context.Context) []doctor.Finding {
	if !e.hasDatabase() {
		return nil
	}
	v, err := VerifyAudit(ctx, e.c, "", nil)
	if err != nil {
		return []doctor.Finding{doctor.Bad("audit", "", err.Error(), "compare it with copies and checkpoints that were kept elsewhere: signalbox help audit")}
	}
	return []doctor.Finding{doctor.Good("audit", "", "the audit log is intact: rows %d to %d, %d checkpoints", v.First, v.Last, v.Checkpoints)}
}

// Differences of clocks that are reported.
const (
	clockBehind = time.Minute // behind the newest row of the audit log
	clockApart  = 2 * time.Second
)

// clock compares the clock of this machine with the newest row of the audit log, and with other
// nodes of the cluster.
func (e *examination) clock(ctx context.Context) (found []doctor.Finding) {
	const remedy = "set the clock, and keep it right with NTP"
	if e.hasDatabase() {
		if newest, err := e.newestRow(ctx); err == nil && newest.Sub(e.now) > clockBehind {
			found = append(found, doctor.Bad("clock", "", fmt.Sprintf("the clock shows %s, and the newest row of the audit log is from %s", e.now.UTC().Format(time.RFC3339), newest.UTC().Format(time.RFC3339)), remedy))
		}
	}
	if e.service != nil {
		for _, p := range e.service.Peers {
			if p.Error == "" && p.Ahead.Abs() > clockApart {
				found = append(found, doctor.Warn("clock", fmt.Sprintf("node %d", p.Node), fmt.Sprintf("its clock is ahead of this one by %s", p.Ahead.Round(time.Second)), remedy+", on both machines"))
			}
		}
	}
	if found == nil {
		found = append(found, doctor.Good("clock", "", "shows %s", e.now.UTC().Format(time.RFC3339)))
	}
	return found
}

func (e *examination) newestRow(ctx context.Context) (at time.Time, err error) {
	err = db.View(ctx, filepath.Join(e.c.DataDir, databaseFile), func(d *db.DB) error {
		all, err := d.ListAudit(ctx, db.AuditFilter{}, 1)
		if len(all) > 0 {
			at = all[0].Time
		}
		return err
	})
	return at, err
}
