package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"signalbox/broker/storage"
)

// HasSecrets reports whether the file at path holds a configuration, which only the key that sealed
// it can open. It reads the file as [storage.View] does; a file that does not exist or is empty holds
// none.
func HasSecrets(ctx context.Context, path string) (found bool, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	err = storage.View(ctx, path, func(db *sql.DB) error {
		version, err := storage.Version(ctx, db, layout())
		if err != nil || version == 0 {
			return err
		}
		return db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM config)`).Scan(&found)
	})
	return found, storage.OpenError(path, err)
}

// Reseal replaces each sealed configuration by the result of reseal, all of them or none, and
// returns their number. No broker may use bridges meanwhile.
func (s *Store) Reseal(ctx context.Context, reseal func(sealed, aad []byte) ([]byte, error)) (n int, err error) {
	err = s.transactConfigs(ctx, func(tx *sql.Tx) error {
		all, err := sealedConfigs(ctx, tx)
		if err != nil {
			return err
		}
		n = len(all)
		for _, c := range all {
			document, err := reseal(c.document, additionalData(c.brokerID, c.bridgeID))
			if err != nil {
				return fmt.Errorf("configuration of %s at broker %s: %w", c.bridgeID, c.brokerID, err)
			}
			const q = `UPDATE config SET document = ? WHERE broker_id = ? AND bridge_id = ?`
			if _, err := tx.ExecContext(ctx, q, document, c.brokerID, c.bridgeID); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	if err != nil {
		return 0, fmt.Errorf("seal the configurations of bridges again: %w", err)
	}
	return n, nil
}

type sealedConfig struct {
	brokerID, bridgeID string
	document           []byte
}

func sealedConfigs(ctx context.Context, tx *sql.Tx) (all []sealedConfig, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT broker_id, bridge_id, document FROM config`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err reports it
	for rows.Next() {
		var c sealedConfig
		if err := rows.Scan(&c.brokerID, &c.bridgeID, &c.document); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// CheckSecrets opens each configuration of the file at path with unseal, and returns their number and
// an error for each that cannot be opened. It reads the file as [HasSecrets] does.
func CheckSecrets(ctx context.Context, path string, unseal func(sealed, aad []byte) ([]byte, error)) (n int, err error) {
	if has, err := HasSecrets(ctx, path); err != nil || !has {
		return 0, err
	}
	var all []sealedConfig
	err = storage.View(ctx, path, func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // it only reads
		all, err = sealedConfigs(ctx, tx)
		return err
	})
	err = storage.OpenError(path, err)
	for _, c := range all {
		if _, e := unseal(c.document, additionalData(c.brokerID, c.bridgeID)); e != nil {
			err = errors.Join(err, fmt.Errorf("configuration of %s at broker %s: %w", c.bridgeID, c.brokerID, e))
		}
	}
	return len(all), err
}
