package handlers

import (
	"context"
	"io"
	"time"
)

// Backups are the backups that the service keeps in the directory backup.directory. Errors
// are those of this package.
type Backups interface {
	// List returns the newest first.
	List() ([]BackupRecord, error)
	// Create and Verify return when the backup was made or verified, or when that takes
	// long, with its state until then.
	Create(ctx context.Context) (BackupRecord, error)
	Verify(ctx context.Context, id string) (BackupRecord, error)
	Open(id string) (content io.ReadCloser, size int64, err error)
	Delete(id string) error
}

// File is a file that is sent as it is. It is closed after that.
type File struct {
	Name    string
	Size    int64
	Content io.ReadCloser
}

// BackupPath names a backup.
type BackupPath struct {
	BackupID string `path:"backupId" doc:"Id of the backup, as listBackups returns it."`
}

// BackupRecord is a backup in the directory of the service.
type BackupRecord struct {
	ID        string    `json:"id" doc:"Id of the backup: the name of its file. Empty while it is made." example:"signalbox-20260131T030000.000Z.backup"`
	State     string    `json:"state" enum:"creating|verifying|verified|unverified|damaged|failed" doc:"creating and verifying (in progress), verified (at verified_at), unverified (put there by hand), damaged (see problem), or failed: the last attempt to make one, until another one succeeds." example:"verified"`
	Time      time.Time `json:"time" doc:"Time whose state the backup has, RFC 3339." example:"2026-01-31T03:00:00Z"`
	Size      int64     `json:"size" doc:"Size of the file in bytes." example:"1843200"`
	Encrypted bool      `json:"encrypted" doc:"Whether it is encrypted." example:"true"`
	WithKey   bool      `json:"with_key" doc:"Whether it has the key with which the service encrypts stored secrets." example:"false"`
	Version   string    `json:"version,omitempty" doc:"Version of the program that made it; absent if that is not known." example:"1.0.0"`
	Verified  time.Time `json:"verified_at,omitzero" doc:"Time at which it was last found intact, RFC 3339; absent if it was never." example:"2026-01-31T03:00:04Z"`
	Duration  float64   `json:"duration_ms,omitempty" doc:"Time that writing and verifying it took, in milliseconds." example:"3800"`
	Problem   string    `json:"problem,omitempty" doc:"Why it is damaged, or why none was made; absent otherwise." example:"-"`
}

// ListBackupsRequest is empty.
type ListBackupsRequest struct{}

// ListBackups returns the backups in the directory of the service, none if that is not
// configured.
func (a *API) ListBackups(_ context.Context, _ *ListBackupsRequest) ([]BackupRecord, error) {
	if a.Backups == nil {
		return []BackupRecord{}, nil
	}
	return a.Backups.List()
}

// CreateBackupRequest is empty.
type CreateBackupRequest struct{}

// CreateBackup makes and verifies a backup.
func (a *API) CreateBackup(ctx context.Context, _ *CreateBackupRequest) (BackupRecord, error) {
	if a.Backups == nil {
		return BackupRecord{}, BackupConflict("no directory for backups is configured: set backup.directory", nil)
	}
	r, err := a.Backups.Create(ctx)
	if err == nil && r.ID != "" {
		noteCreated(ctx, r.ID, "", "")
	}
	return r, err
}

// BackupRequest names a backup.
type BackupRequest struct{ BackupPath }

// VerifyBackup reads a backup completely.
func (a *API) VerifyBackup(ctx context.Context, r *BackupRequest) (BackupRecord, error) {
	if a.Backups == nil {
		return BackupRecord{}, NoBackup(nil)
	}
	return a.Backups.Verify(ctx, r.BackupID)
}

// DownloadBackup returns the file of a backup.
func (a *API) DownloadBackup(_ context.Context, r *BackupRequest) (File, error) {
	if a.Backups == nil {
		return File{}, NoBackup(nil)
	}
	content, size, err := a.Backups.Open(r.BackupID)
	return File{Name: r.BackupID, Size: size, Content: content}, err
}

// DeleteBackup deletes a backup.
func (a *API) DeleteBackup(_ context.Context, r *BackupRequest) error {
	if a.Backups == nil {
		return NoBackup(nil)
	}
	return a.Backups.Delete(r.BackupID)
}

// NoBackup is the error for a backup that does not exist.
func NoBackup(cause error) *Error {
	return &Error{Status: 404, Code: CodeNotFound, Message: "the service has no backup with this id", Cause: cause}
}

// BackupConflict is the error for what cannot be done with backups now.
func BackupConflict(message string, cause error) *Error {
	return &Error{Status: 400, Code: CodeConflict, Message: message, Cause: cause}
}

// BackupFailed is the error for a backup that could not be made, verified or deleted. Only
// root administrators see it: it names files of the machine.
func BackupFailed(message string, cause error) *Error {
	return &Error{Status: 500, Code: CodeInternalError, Message: message + ": " + cause.Error(), Cause: cause}
}
