// Package datadir keeps the databases of a data directory together: the directory has
// an identity, which each of its databases carries, and knows which databases it has.
// So one that was lost, emptied, replaced or copied from another directory is noticed,
// at the start and while the service runs.
//
// DESIGN.md lists the cases. Of this module the package must import nothing but
// broker/storage.
package datadir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/broker/storage"
)

// fileName is the name of the file that holds the identity.
const fileName = "identity"

// maxFileBytes bounds the file; it holds an identity and a few names.
const maxFileBytes = 64 << 10

// identity is the content of the file: the id of the directory, and its databases, by
// their names below it, as in "broker.db" and "cluster/cluster.db".
type identity struct {
	ID        string   `json:"id"`
	Databases []string `json:"databases"`
}

func newIdentity() *identity { return &identity{ID: strings.ToLower(rand.Text())} }

func (i *identity) has(name string) bool { return i != nil && slices.Contains(i.Databases, name) }

// load reads the identity of a directory, nil if it has none.
func load(dir string) (*identity, error) {
	path := filepath.Join(dir, fileName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxFileBytes {
		return nil, unusable(path, errors.New("it is too large"))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the identity of the data directory: %w", err)
	}
	i, err := parse(text)
	if err != nil {
		return nil, unusable(path, err)
	}
	return i, nil
}

// parse decodes what save has written.
func parse(text []byte) (*identity, error) {
	var i identity
	if err := json.Unmarshal(text, &i); err != nil {
		return nil, err
	}
	if i.ID == "" {
		return nil, errors.New("it names no id")
	}
	for _, name := range i.Databases {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("%q does not name a file of the directory", name)
		}
	}
	return &i, nil
}

// unusable advises to remove the file: the databases carry the identity too.
func unusable(path string, err error) error {
	return fmt.Errorf("%s is damaged: put it back from a backup or move it away, since the databases carry the identity too (%w)", path, err)
}

// save replaces the file by one that is durable before it has the name.
func (i *identity) save(dir string) error {
	slices.Sort(i.Databases)
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, fileName), append(text, '\n')); err != nil {
		return fmt.Errorf("write the identity of the data directory: %w", err)
	}
	return nil
}

func replace(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return storage.SyncDir(filepath.Dir(path))
}
