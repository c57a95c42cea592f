package appliance

import (
	"context"
	"path/filepath"

	"signalbox/db"
	"signalbox/handlers/audit"
)

// VerifyAudit reads the audit log of a data directory, of which a service may be running; see
// [audit.Verify].
func VerifyAudit(ctx context.Context, c Config, key string, checkpoints [][]byte) (v db.AuditVerified, err error) {
	err = db.View(ctx, filepath.Join(c.DataDir, databaseFile), func(d *db.DB) error {
		v, err = audit.Verify(ctx, d, key, checkpoints...)
		return err
	})
	return v, err
}
