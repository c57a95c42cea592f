package raftlog

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
)

// retained is how many snapshots stay: the last one, and the one before it for
// those who are reading it.
const retained = 2

var table = crc64.MakeTable(crc64.ECMA)

// SnapshotReader reads a snapshot and knows which one it is: raft passes only the contents
// to its state machine.
type SnapshotReader struct {
	raft.SnapshotMeta
	io.Reader
	file *os.File
}

// Close closes the file.
func (r *SnapshotReader) Close() error { return r.file.Close() }

// Create begins a snapshot, which is not listed until it is closed.
func (s *Store) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configurationIndex uint64,
	_ raft.Transport) (raft.SnapshotSink, error) {
	return s.create(raft.SnapshotMeta{Version: version, Index: index, Term: term, Configuration: c, ConfigurationIndex: configurationIndex})
}

func (s *Store) create(meta raft.SnapshotMeta) (*sink, error) {
	meta.ID = uuid.Must(uuid.NewV7()).String() // sorts by time
	s.unfinished.Store(meta.ID, true)
	f, err := os.OpenFile(s.path(meta.ID), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		s.unfinished.Delete(meta.ID)
		return nil, fmt.Errorf("begin a snapshot of the cluster: %w", err)
	}
	k := &sink{store: s, meta: meta, file: f, sum: crc64.New(table)}
	k.buffer = bufio.NewWriterSize(io.MultiWriter(f, k.sum), 64<<10)
	return k, nil
}

// Bootstrap stores the snapshot with which a consensus begins, whose contents write
// writes, and changes other stored values, in one transaction.
func (s *Store) Bootstrap(meta raft.SnapshotMeta, write func(io.Writer) error, c Changes) error {
	k, err := s.create(meta)
	if err != nil {
		return err
	}
	if err := write(k); err != nil {
		return errors.Join(err, k.Cancel())
	}
	return k.finish(c)
}

// path returns the path of a snapshot's contents.
func (s *Store) path(id string) string { return filepath.Join(s.dir, id) }

// row is a snapshot as it is stored.
type row struct {
	raft.SnapshotMeta
	crc uint64
}

// List returns the snapshots, the latest first.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	rows, err := s.rows()
	if err != nil {
		return nil, err
	}
	var all []*raft.SnapshotMeta
	for i := range rows {
		all = append(all, &rows[i].SnapshotMeta)
	}
	return all, nil
}

func (s *Store) rows() (all []row, err error) {
	rows, err := s.read.snapshots.Query()
	if err != nil {
		return nil, fmt.Errorf("list the cluster's snapshots: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var configuration []byte
		var crc int64
		if err := rows.Scan(&r.ID, &r.Version, &r.Index, &r.Term, &configuration, &r.ConfigurationIndex, &r.Size, &crc); err != nil {
			return nil, fmt.Errorf("list the cluster's snapshots: %w", err)
		}
		r.crc, r.Configuration = uint64(crc), raft.DecodeConfiguration(configuration)
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the cluster's snapshots: %w", err)
	}
	return all, nil
}

// Open returns the contents of a snapshot, a *SnapshotReader, after it has verified their
// checksum.
func (s *Store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	rows, err := s.rows()
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(rows, func(r row) bool { return r.ID == id })
	if i < 0 {
		return nil, nil, fmt.Errorf("snapshot %s does not exist", id)
	}
	f, err := os.Open(s.path(id))
	if err != nil {
		return nil, nil, fmt.Errorf("open a snapshot of the cluster: %w", err)
	}
	if err := rows[i].check(f); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	r := &SnapshotReader{SnapshotMeta: rows[i].SnapshotMeta, Reader: bufio.NewReaderSize(f, 64<<10), file: f}
	return &r.SnapshotMeta, r, nil
}

// check verifies the checksum of the contents and seeks back to their start.
func (r *row) check(f *os.File) error {
	sum := crc64.New(table)
	n, err := io.Copy(sum, f)
	if err != nil {
		return fmt.Errorf("read a snapshot of the cluster: %w", err)
	}
	if n != r.Size || sum.Sum64() != r.crc {
		return fmt.Errorf("snapshot %s of the cluster is damaged: its %d bytes do not have the checksum that is stored", r.ID, n)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read a snapshot of the cluster: %w", err)
	}
	return nil
}

// deleteOrphans deletes the files that belong to no snapshot, finished or not.
func (s *Store) deleteOrphans() error {
	files, err := os.ReadDir(s.dir) // before the list, in which they may appear meanwhile
	if err != nil {
		return fmt.Errorf("list the cluster's snapshots: %w", err)
	}
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool {
		_, unfinished := s.unfinished.Load(f.Name())
		return unfinished
	})
	rows, err := s.rows()
	if err != nil {
		return err
	}
	for _, f := range files {
		if slices.ContainsFunc(rows, func(r row) bool { return r.ID == f.Name() }) {
			continue
		}
		if err := os.Remove(s.path(f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete a snapshot of the cluster: %w", err)
		}
	}
	return nil
}
