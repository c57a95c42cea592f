// Package backup writes the databases and files of a data directory to one file, and
// reads and verifies such files. A file is a tar archive in a zstd stream, which may be
// encrypted with age. DESIGN.md describes the format.
//
// Of this module the package must import nothing but broker/storage.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/broker/storage"
)

// format is the version of the format that this program writes, and the newest it reads.
const format = 1

// The names of parts with a meaning of their own.
const (
	manifestName = "manifest.json"
	identityName = "identity"
	// KeyName is the part with the key of the stored secrets.
	KeyName = "secret.key"
	// ConfigName is the part with the configuration, without secrets.
	ConfigName  = "config.yaml"
	nextKeyName = "secret.key.next" // of a rotation that was interrupted
	certsDir    = "certs"
	clusterName = "cluster/cluster.db"
)

// Bounds of what is read from a file before it is verified.
const (
	maxManifestBytes = 4 << 20
	maxParts         = 10_000
)

// databaseNames are the databases that a backup may contain.
var databaseNames = []string{"signalbox.db", "streams.db", "bridges.db", "broker.db"}

// Manifest is the first entry of a backup: it describes the others.
type Manifest struct {
	Format    int              `json:"format"`
	Version   string           `json:"version"` // of the program
	Time      time.Time        `json:"time"`    // of the moment that all databases show
	Directory string           `json:"directory"`
	Parts     []Part           `json:"parts"`             // in the order of the archive
	Omitted   []string         `json:"omitted,omitempty"` // files that may contain private keys, in a backup that is not encrypted
	Counts    map[string]int64 `json:"counts"`
	Audit     AuditHead        `json:"audit"`
	// Node reports whether the broker was a node of a cluster.
	Node bool `json:"node,omitempty"`
}

// Part is a file of the data directory, or the configuration.
type Part struct {
	Name   string `json:"name"` // with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Schema int64  `json:"schema,omitempty"` // of a database
}

// AuditHead is the last row of the audit log, whose hash depends on all earlier ones.
type AuditHead struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// Has reports whether the backup has a part.
func (m *Manifest) Has(name string) bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Name == name })
}

// isDatabase reports whether a part is a database.
func isDatabase(name string) bool { return slices.Contains(databaseNames, name) }

// validate returns an error for a manifest that cannot be extracted safely.
func (m *Manifest) validate() error {
	if m.Format > format {
		return fmt.Errorf("the backup was written by a newer release (version %s, format %d; this one knows %d): use that release", m.Version, m.Format, format)
	}
	if m.Format < 1 || m.Directory == "" || len(m.Parts) > maxParts {
		return damaged("its manifest is invalid", nil)
	}
	seen := map[string]bool{}
	for _, p := range m.Parts {
		if seen[p.Name] || p.Size < 0 || !allowed(p.Name) {
			return damaged(fmt.Sprintf("its manifest names the part %q, which cannot be in a backup", p.Name), nil)
		}
		if b, err := hex.DecodeString(p.SHA256); err != nil || len(b) != sha256.Size {
			return damaged("its manifest has an invalid sum of "+p.Name, nil)
		}
		seen[p.Name] = true
	}
	if !seen[databaseNames[0]] || !seen[identityName] {
		return damaged("it lacks "+databaseNames[0]+" or "+identityName, nil)
	}
	return nil
}

// allowed reports whether a part may have a name, so that no part is written outside
// the directory or in the place of another file.
func allowed(name string) bool {
	if isDatabase(name) || slices.Contains([]string{identityName, KeyName, nextKeyName, ConfigName}, name) {
		return true
	}
	return strings.HasPrefix(name, certsDir+"/") && path.Clean(name) == name && filepath.IsLocal(filepath.FromSlash(name)) &&
		!strings.ContainsAny(name, "\\:\x00")
}

// examined is what a backup states about its databases.
type examined struct {
	schema map[string]int64
	counts map[string]int64
	audit  AuditHead
}

// examine counts the rows of the databases in a directory.
func examine(ctx context.Context, dir string, names []string) (examined, error) {
	x := examined{schema: map[string]int64{}, counts: map[string]int64{}}
	for _, name := range names {
		s, err := storage.Summarise(ctx, filepath.Join(dir, name), counted[name])
		if err != nil {
			return x, err
		}
		x.schema[name] = s.Schema
		for what, text := range s.Values {
			number, hash, _ := strings.Cut(text, " ")
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return x, err
			}
			if what == auditHead {
				x.audit = AuditHead{Seq: n, Hash: hash}
			} else {
				x.counts[what] = n
			}
		}
	}
	return x, nil
}

// auditHead is the name of the query for the last row of the audit log, which is not a
// count.
const auditHead = "audit_head"

// counted are the queries of the numbers in a manifest, by database.
var counted = map[string]map[string]string{
	"signalbox.db": {
		"users": `SELECT count(*) FROM users`, "projects": `SELECT count(*) FROM projects`, "tokens": `SELECT count(*) FROM tokens`,
		auditHead: `SELECT coalesce((SELECT seq || ' ' || lower(hex(hash)) FROM audit ORDER BY seq DESC LIMIT 1), '0')`,
		"brokers": `SELECT count(*) FROM brokers`, "audit_rows": `SELECT count(*) FROM audit`,
	},
	"broker.db": {
		"clients": `SELECT count(*) FROM access_clients`, "groups": `SELECT count(*) FROM access_groups`, "roles": `SELECT count(*) FROM access_roles`,
		"sessions": `SELECT count(*) FROM session`, "messages": `SELECT count(*) FROM message`, "retained": `SELECT count(*) FROM message WHERE retained <> 0`,
	},
	"streams.db": {"streams": `SELECT count(*) FROM stream`, "stream_messages": `SELECT coalesce(sum(messages), 0) FROM log`},
	"bridges.db": {"bridges": `SELECT count(*) FROM config`, "dead_letters": `SELECT count(*) FROM dead`},
}
