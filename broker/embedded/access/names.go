package access

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"signalbox/broker/storage"
)

// ClientNames returns the usernames and client ids that the database at path has, at most limit.
// It reads the file as [storage.View] does; a file that does not exist has none.
func ClientNames(ctx context.Context, path string, limit int) (names []string, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil
	}
	err = storage.View(ctx, path, func(db *sql.DB) error {
		const q = `
			SELECT username FROM access_clients UNION SELECT clientid FROM access_clients
			UNION SELECT clientid FROM session UNION SELECT username FROM session LIMIT ?`
		rows, err := db.QueryContext(ctx, q, limit)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // Err reports it
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return fmt.Errorf("read the names of clients: %w", err)
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	return names, storage.OpenError(path, err)
}
