package backup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"signalbox/broker/storage"
)

// brokers are the queries of the brokers that a database knows or has data of, by database. The
// embedded broker, which has other ids in streams.db and bridges.db, is left out there.
var brokers = map[string]string{
	"signalbox.db": `SELECT coalesce(group_concat(id, ' '), '') FROM brokers`,
	"streams.db":   `SELECT coalesce(group_concat(id, ' '), '') FROM (SELECT DISTINCT broker_id AS id FROM stream WHERE broker_id <> 'embedded' AND broker_id NOT LIKE 'embedded/%')`,
	"bridges.db":   `SELECT coalesce(group_concat(id, ' '), '') FROM (SELECT DISTINCT broker_id AS id FROM config WHERE broker_id <> 'embedded' AND broker_id NOT LIKE 'embedded/%')`,
}

// Brokers returns the ids of the brokers in a database in dir; none if that does not exist.
func Brokers(ctx context.Context, dir, name string) ([]string, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	ids, err := storage.Scan(ctx, path, brokers[name])
	return strings.Fields(ids), err
}
