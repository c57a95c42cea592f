package store

import (
	"context"
	"database/sql"
	"fmt"
)

// HasSecrets reports whether a configuration is stored, which only the key that sealed it can
// open.
func (s *Store) HasSecrets(ctx context.Context) (found bool, err error) {
	const q = `SELECT EXISTS (SELECT 1 FROM config)`
	if err := s.reader.db.QueryRowContext(ctx, q).Scan(&found); err != nil {
		return false, fmt.Errorf("look for configurations of bridges: %w", err)
	}
	return found, nil
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
		return 0, fmt.Errorf("seal the configurations of bridges anew: %w", err)
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
