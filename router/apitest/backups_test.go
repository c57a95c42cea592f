package apitest_test

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/router/appliance/backup"
)

// TestDisk reads the free space of the disk. Only root administrators may.
func TestDisk(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	var disk handlers.Disk
	if a.Root.Get("/api/disk").Want(200).Decode(&disk); disk.Free == nil || *disk.Free <= 0 {
		t.Errorf("got %+v", disk)
	}
	a.Token("admin").Get("/api/disk").WantError(403, "FORBIDDEN")
}

// TestBackups makes, lists, verifies, downloads and deletes backups. Only root administrators
// may, and a name is never part of a path.
func TestBackups(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "backups")
	a := apitest.New(t, apitest.In(data), func(c *appliance.Config) { c.Backup.Directory = dir })
	var made handlers.BackupRecord
	a.Root.Post("/api/backups", nil).Want(200).Decode(&made)
	if made.State != "verified" || made.Size == 0 || made.Encrypted || made.Version != "test" {
		t.Fatalf("made: %+v", made)
	}
	at := "/api/backups/" + made.ID
	file, err := os.ReadFile(filepath.Join(dir, made.ID))
	if err != nil {
		t.Fatal(err)
	}
	got := a.Root.Get(at + "/content").Want(200)
	if !bytes.Equal(got.Body, file) || got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("Content-Disposition") != "attachment; filename="+made.ID {
		t.Errorf("downloaded %d of %d bytes, header %v", len(got.Body), len(file), got.Header)
	}
	if rows := auditOf(t, a.Root, "/api/audit", "operation=downloadBackup"); len(rows) != 1 || rows[0].Object != made.ID || rows[0].Outcome != "done" {
		t.Errorf("audit of the download: %+v", rows)
	}
	if rows := auditOf(t, a.Root, "/api/audit", "operation=createBackup"); len(rows) != 1 || rows[0].Object != made.ID {
		t.Errorf("audit of the creation: %+v", rows)
	}
	a.Root.Post(at+"/verify", nil).Want(200)
	backupsOnlyForRoot(t, a, at, dir)
	backupsOneAtATime(t, a, at, backup.Directory{Path: dir, DataDir: data})
	file[len(file)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, made.ID), file, 0o600); err != nil {
		t.Fatal(err)
	}
	var found handlers.BackupRecord
	if a.Root.Post(at+"/verify", nil).Want(200).Decode(&found); found.State != "damaged" || found.Problem == "" {
		t.Errorf("a changed byte: %+v", found)
	}
	a.Root.Delete(at).Want(204)
	var left []handlers.BackupRecord
	if a.Root.Get("/api/backups").Want(200).Decode(&left); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
}

func backupsOnlyForRoot(t *testing.T, a *apitest.API, at, dir string) {
	t.Helper()
	for _, c := range []*apitest.Caller{a.Token("admin"), a.Anonymous()} {
		for _, call := range [][2]string{{"GET", "/api/backups"}, {"POST", "/api/backups"}, {"POST", at + "/verify"}, {"GET", at + "/content"}, {"DELETE", at}} {
			if got := c.Do(call[0], call[1], nil); got.Status != 401 && got.Status != 403 {
				t.Errorf("%v: got %d", call, got.Status)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "outside"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../outside", "..", "signalbox-20260131T030000.000Z.backup/../../outside", ".signalbox-backup.lock", at[len("/api/backups/"):] + ".json", "signalbox-20260131T030000.000Z.backup"} {
		path := "/api/backups/" + url.PathEscape(name)
		a.Root.Get(path+"/content").WantError(404, "NOT_FOUND")
		a.Root.Post(path+"/verify", nil).WantError(404, "NOT_FOUND")
		a.Root.Delete(path).WantError(404, "NOT_FOUND")
	}
}

// backupsOneAtATime calls while another process makes a backup in the same directory.
func backupsOneAtATime(t *testing.T, a *apitest.API, at string, d backup.Directory) {
	t.Helper()
	_, err := d.Create(t.Context(), backup.Options{}, func(context.Context, string, string, backup.Identities) (*backup.Manifest, error) {
		a.Root.Post("/api/backups", nil).WantError(400, "CONFLICT")
		a.Root.Post(at+"/verify", nil).WantError(400, "CONFLICT")
		a.Root.Delete(at).WantError(400, "CONFLICT")
		return nil, backup.ErrDamaged
	})
	if err == nil {
		t.Error("a backup that is damaged was kept")
	}
}

// TestNoBackups is a service without a directory for backups.
func TestNoBackups(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	var all []handlers.BackupRecord
	if a.Root.Get("/api/backups").Want(200).Decode(&all); len(all) != 0 {
		t.Errorf("got %+v", all)
	}
	a.Root.Post("/api/backups", nil).WantError(400, "CONFLICT")
	a.Root.Get("/api/backups/signalbox-20260131T030000.000Z.backup/content").WantError(404, "NOT_FOUND")
}
