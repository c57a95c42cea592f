package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"signalbox/broker/storage"
)

// Options are those of a backup.
type Options struct {
	Version string // of the program
	Config  []byte // the configuration without secrets; nil for none
	WithKey bool   // include the key of the stored secrets; needs To
	To      Recipient
	// Begun is called when nothing waits for the backup any more; nil for nothing.
	Begun func()
	// Now returns the time of day; nil for that of the machine.
	Now func() time.Time
}

func (o Options) now() time.Time {
	if o.Now == nil {
		return time.Now().UTC()
	}
	return o.Now().UTC()
}

// Create writes a backup of a data directory, of which a service may be running, to a
// new file. The file exists only if there is no error.
func Create(ctx context.Context, dir, file string, o Options) (m *Manifest, err error) {
	if o.WithKey && o.To.age == nil {
		return nil, errors.New("the key of the stored secrets is only written to an encrypted backup: give --recipient or --passphrase-file too, or leave out --with-key")
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s exists already, and no backup is overwritten: give another name", file)
	}
	stage, err := os.MkdirTemp(filepath.Dir(file), ".signalbox-backup-")
	if err != nil {
		return nil, fmt.Errorf("write the backup beside %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	c := &creation{dir: dir, stage: stage, options: o, manifest: Manifest{Format: format, Version: o.Version}}
	if err := c.collect(ctx); err != nil {
		return nil, err
	}
	archive := filepath.Join(stage, "archive")
	if err := c.writeFile(ctx, archive); err != nil {
		return nil, fmt.Errorf("write the backup %s: %w", file, err)
	}
	if err := os.Link(archive, file); err != nil { // unlike a rename it does not replace a file
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s exists already, and no backup is overwritten: give another name", file)
		}
		if err := os.Rename(archive, file); err != nil { // the file system has no links
			return nil, err
		}
	}
	return &c.manifest, storage.SyncDir(filepath.Dir(file))
}

// creation is a backup that is being written.
type creation struct {
	dir, stage string
	options    Options
	manifest   Manifest
}

// collect copies all parts to the stage and describes them.
func (c *creation) collect(ctx context.Context) error {
	names, err := c.copyDatabases(ctx)
	if err != nil {
		return err
	}
	if err := c.addIdentity(ctx, names); err != nil {
		return err
	}
	x, err := examine(ctx, c.stage, names)
	if err != nil {
		return err
	}
	c.manifest.Counts, c.manifest.Audit = x.counts, x.audit
	for i, p := range c.manifest.Parts {
		c.manifest.Parts[i].Schema = x.schema[p.Name]
	}
	if err := c.addCertificates(ctx); err != nil {
		return err
	}
	if c.options.WithKey {
		if err := c.addFile(ctx, KeyName); err != nil {
			return fmt.Errorf("read the key of the stored secrets: %w", err)
		}
		if err := c.addFile(ctx, nextKeyName); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if c.options.Config != nil {
		return c.add(ctx, ConfigName, c.options.Config)
	}
	return nil
}

// copyDatabases copies the databases as of one moment.
func (c *creation) copyDatabases(ctx context.Context) (names []string, err error) {
	var paths []string
	for _, name := range databaseNames {
		path := filepath.Join(c.dir, name)
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			names, paths = append(names, name), append(paths, path)
		}
	}
	if len(names) == 0 || names[0] != databaseNames[0] {
		return nil, fmt.Errorf("%s is not a data directory, since it has no %s: give the right one with --data_dir", c.dir, databaseNames[0])
	}
	if c.manifest.Node, err = isNode(ctx, c.dir); err != nil {
		return nil, err
	}
	m, err := storage.BeginMoment(ctx, paths)
	if err != nil {
		return nil, err
	}
	c.manifest.Time = c.options.now()
	if c.options.Begun != nil {
		c.options.Begun()
	}
	for i, name := range names {
		if err == nil {
			err = m.Copy(ctx, paths[i], filepath.Join(c.stage, name))
		}
	}
	if err := errors.Join(err, m.Close()); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := c.describe(ctx, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// isNode reports whether the broker of a data directory is a node of a cluster: whether the
// database of that, which a backup does not contain, has the credentials of a node.
func isNode(ctx context.Context, dir string) (bool, error) {
	path := filepath.Join(dir, filepath.FromSlash(clusterName))
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return false, nil //nolint:nilerr // it never was one
	}
	n, err := storage.Scan(ctx, path, `SELECT count(*) FROM kept WHERE name = 'cluster/identity' AND length(value) > 0`)
	return n == "1", err
}

// directory is the content of the file with the identity of a data directory.
type directory struct {
	ID        string   `json:"id"`
	Databases []string `json:"databases"`
}

func readIdentity(dir string) (d directory, err error) {
	text, err := os.ReadFile(filepath.Join(dir, identityName))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("read the identity of the data directory, which the first start of the service writes: %w", err)
	}
	return d, nil
}

// addIdentity adds the identity of the directory with the databases of the backup: a
// restored directory does not have the others.
func (c *creation) addIdentity(ctx context.Context, names []string) error {
	d, err := readIdentity(c.dir)
	if err != nil {
		return err
	}
	d.Databases, c.manifest.Directory = names, d.ID
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return c.add(ctx, identityName, append(text, '\n'))
}

// addCertificates adds the files in the directory of certificates.
func (c *creation) addCertificates(ctx context.Context) error {
	root := filepath.Join(c.dir, certsDir)
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if path == root && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() && e.Type()&fs.ModeSymlink == 0 {
			return err
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return err // of a link to a folder, nil
		}
		name, err := filepath.Rel(c.dir, path)
		if err != nil {
			return err
		}
		return c.addCertificate(ctx, filepath.ToSlash(name))
	})
}

// addCertificate adds a file of the directory of certificates. One that may contain a
// private key is only written to an encrypted backup.
func (c *creation) addCertificate(ctx context.Context, name string) error {
	if c.options.To.age == nil {
		text, err := os.ReadFile(filepath.Join(c.dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if !onlyCertificates(text) {
			c.manifest.Omitted = append(c.manifest.Omitted, name)
			return nil
		}
	}
	return c.addFile(ctx, name)
}

// onlyCertificates reports whether text is nothing but certificates and revocation lists
// in PEM, and comments.
func onlyCertificates(text []byte) bool {
	found := false
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return found && !bytes.Contains(text, []byte("-----"))
		}
		if block.Type != "CERTIFICATE" && block.Type != "X509 CRL" {
			return false
		}
		found, text = true, rest
	}
}

// addFile adds a file of the data directory that is not a database.
func (c *creation) addFile(ctx context.Context, name string) error {
	text, err := os.ReadFile(filepath.Join(c.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	if !allowed(name) {
		return fmt.Errorf("the file %s in the data directory %s has a name that a backup cannot contain: rename it", name, c.dir)
	}
	return c.add(ctx, name, text)
}

func (c *creation) add(ctx context.Context, name string, text []byte) error {
	path := filepath.Join(c.stage, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return c.describe(ctx, name)
}

// describe adds a part that is in the stage to the manifest.
func (c *creation) describe(ctx context.Context, name string) error {
	f, err := os.Open(filepath.Join(c.stage, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, cancellable{ctx, f})
	c.manifest.Parts = append(c.manifest.Parts, Part{Name: name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return errors.Join(err, f.Close())
}
