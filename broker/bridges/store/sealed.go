package store

import (
	"context"
	"fmt"
)

// HasSecrets tells whether a configuration is stored, which only the key that it was
// sealed with opens.
func (s *Store) HasSecrets(ctx context.Context) (found bool, err error) {
	const q = `SELECT EXISTS (SELECT 1 FROM config)`
	if err := s.reading.db.QueryRowContext(ctx, q).Scan(&found); err != nil {
		return false, fmt.Errorf("look for configurations of bridges: %w", err)
	}
	return found, nil
}
