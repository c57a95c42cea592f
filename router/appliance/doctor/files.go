package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Directory is what the check of a data directory needs to know about its files.
type Directory struct {
	Path         string
	Secret       []string // names of files without which, or with others' access to which, the service does not start
	Certificates string   // name of the folder of certificates, which others may read but for keys
	Temporary    []string // patterns of names of files that an interrupted change leaves
	OfRun        []string // names of files that exist while a service runs
	Advice       map[string]string
}

// maxFindings bounds the findings about single files.
const maxFindings = 100

// Files checks the files of a directory: access, owner, and what an earlier process has left. A
// directory that does not exist has none.
func (d Directory) Files(running bool) []Finding {
	s := &survey{Directory: d, running: running}
	info, err := os.Stat(d.Path)
	if err != nil {
		return []Finding{d.unreadable(d.Path, err)}
	}
	if !info.IsDir() {
		return []Finding{Bad("files", d.Path, "is not a directory", "set data_dir to a directory")}
	}
	s.owner, s.owned = ownerOf(info)
	if err := filepath.WalkDir(d.Path, s.visit); err != nil {
		s.add(d.unreadable(d.Path, err))
	}
	if len(s.found) == 0 {
		return []Finding{Good("files", "", "%d files; modes and owners are right, and nothing was left over", s.files)}
	}
	return s.found
}

func (d Directory) unreadable(path string, err error) Finding {
	return Bad("files", d.name(path), "cannot be read: "+err.Error(), "run the command as the user that runs the service, and make the file readable for that user")
}

// name returns a path as it is shown: below the directory.
func (d Directory) name(path string) string {
	if name, err := filepath.Rel(d.Path, path); err == nil && name != "." {
		return filepath.ToSlash(name)
	}
	return path
}

// survey is one check of all files.
type survey struct {
	Directory
	running bool
	owner   uint32
	owned   bool // owner is known
	files   int
	found   []Finding
}

func (s *survey) add(f Finding) {
	if len(s.found) < maxFindings {
		s.found = append(s.found, f)
	}
}

func (s *survey) visit(path string, entry fs.DirEntry, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted in the meantime
	}
	if err != nil {
		s.add(s.unreadable(path, err))
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return nil //nolint:nilerr // deleted in the meantime
	}
	s.files++
	name := s.name(path)
	if s.isStale(name) {
		s.add(s.stale(path))
		return nil
	}
	if owner, known := ownerOf(info); known && s.owned && owner != s.owner {
		s.add(Bad("owner", name, fmt.Sprintf("belongs to user %d, and the directory to user %d", owner, s.owner),
			fmt.Sprintf("run as root: chown -R %d %s", s.owner, s.Path)))
	}
	s.mode(path, name, info)
	if advice := s.Advice[name]; advice != "" {
		s.add(Warn("files", name, advice, "delete the file when that was done"))
	}
	return nil
}

// isStale reports whether a file was left by an earlier process.
func (s *survey) isStale(name string) bool {
	if slices.Contains(s.OfRun, name) {
		return !s.running
	}
	return slices.ContainsFunc(s.Temporary, func(pattern string) bool {
		fits, err := filepath.Match(pattern, filepath.Base(name))
		return err == nil && fits
	})
}

func (s *survey) stale(path string) Finding {
	f := Warn("stale", s.name(path), "was left by a process that did not end in order", "signalbox doctor --fix, while the service is stopped")
	f.fix, f.kind = func() error { return os.Remove(path) }, fixStopped
	if s.running {
		f = Good("stale", s.name(path), "is in use, or was left by an earlier process")
	}
	return f
}

// mode checks who may access a file or folder.
func (s *survey) mode(path, name string, info fs.FileInfo) {
	if runtime.GOOS == "windows" {
		return // access is not part of the mode there
	}
	mode, want := info.Mode().Perm(), fs.FileMode(0o600)
	switch {
	case info.IsDir():
		want = 0o700
	case !info.Mode().IsRegular() || s.isCertificate(path, name):
		return
	}
	if mode&0o077 == 0 && mode&want&0o600 == 0o600 {
		return
	}
	f := Warn("files", name, fmt.Sprintf("has mode %#o, so other users may access it", mode), fmt.Sprintf("signalbox doctor --fix, or chmod %o %s", want, path))
	if mode&0o077 == 0 {
		f.Level, f.Text = Error, fmt.Sprintf("has mode %#o, so its owner cannot read or write it", mode)
	} else if slices.Contains(s.Secret, name) {
		f.Level, f.Text = Error, f.Text+", and the service does not start"
		f.Remedy += "; change the broker passwords if others had access"
	}
	f.fix = func() error { return os.Chmod(path, want) }
	s.add(f)
}

// ReadableByAll reports whether a file with secrets can be read by all users.
func ReadableByAll(check, path string) (f Finding, can bool) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o007 == 0 {
		return f, false
	}
	mode := info.Mode().Perm()
	f = Warn(check, path, fmt.Sprintf("has mode %#o and holds secrets, which all users may read", mode), fmt.Sprintf("signalbox doctor --fix, or chmod o= %s; change the secrets if others had access", path))
	f.fix = func() error { return os.Chmod(path, mode&^0o007) }
	return f, true
}

// maxPEM bounds what is read of a file to find a key in it.
const maxPEM = 1 << 20

// isCertificate reports whether a file is in the folder of certificates and holds no key.
func (s *survey) isCertificate(path, name string) bool {
	if !strings.HasPrefix(name, s.Certificates+"/") {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxPEM))
	return err == nil && !bytes.Contains(text, []byte("PRIVATE KEY"))
}
