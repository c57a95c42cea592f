package upgrade

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The names of files in a bundle and beside a program.
const (
	sumsName  = "SHA256SUMS"
	keyName   = "signalbox.pub" // a new key of releases
	extension = ".minisig"
)

// Bounds of what is read before it is verified.
const (
	maxHeadBytes    = 1 << 20   // of a list of checksums, a key or a signature
	maxProgramBytes = 512 << 20 // of a program
)

// ErrPlatform means that a release is not for this machine.
var ErrPlatform = errors.New("the release is not for this machine")

// Extract verifies a release, and writes the program in it for this machine to a new file,
// which is only executable once all was verified. A file with that name is replaced.
func Extract(file string, keys Keys, program string) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	r := bufio.NewReaderSize(f, headerSize)
	header, err := r.Peek(headerSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	out, err := create(program)
	if err != nil {
		return err
	}
	if isTar(header) {
		err = (&bundle{keys: keys, program: out}).read(r)
	} else {
		err = single(file, header, keys, r, out)
	}
	err = errors.Join(err, out.Sync(), out.Close())
	if err == nil {
		err = os.Chmod(program, 0o755) //nolint:gosec // a program may be run by all users
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", file, err), os.Remove(program))
	}
	return nil
}

func create(program string) (*os.File, error) {
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(program, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// isTar reports whether a file begins as an archive.
func isTar(header []byte) bool { return len(header) >= 262 && string(header[257:262]) == "ustar" }

// single verifies a program with its signature, and a change of the key, in files beside it.
func single(file string, header []byte, keys Keys, r io.Reader, to io.Writer) error {
	if err := checkPlatform(header); err != nil {
		return err
	}
	text, err := readBounded(r, maxProgramBytes)
	if err != nil {
		return err
	}
	signature, err := readSmall(file + extension)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no signature %s beside it: put that of the release there", filepath.Base(file)+extension)
	}
	if err != nil {
		return err
	}
	change, err := changeBeside(file)
	if err != nil {
		return err
	}
	if err := keys.verify(text, signature, change); err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}

func changeBeside(file string) (c changeOfKey, err error) {
	path := filepath.Join(filepath.Dir(file), keyName)
	if c.signature, err = readSmall(path + extension); errors.Is(err, fs.ErrNotExist) {
		return changeOfKey{}, nil
	}
	if err == nil {
		c.key, err = readSmall(path)
	}
	return c, err
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return readBounded(f, maxHeadBytes)
}

func readBounded(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("it is larger than %d bytes, which no release is", most)
	}
	return text, err
}

// checkPlatform returns ErrPlatform unless a program is for this machine.
func checkPlatform(header []byte) error {
	got, err := platformOf(header)
	if err != nil {
		return err
	}
	if want := runtime.GOOS + "/" + runtime.GOARCH; got != want {
		return fmt.Errorf("%w: it is for %s, and this is %s", ErrPlatform, got, want)
	}
	return nil
}

// bundle is one that is being read. Its first entries are the checksums of all others, their
// signature and, where the key of releases changes, that with its own signature.
type bundle struct {
	keys    Keys
	program io.Writer

	head  map[string][]byte
	sums  map[string]string // of the files that were not read yet; nil before they are verified
	found bool              // the program
}

// programName is the name of the program for this machine.
func programName() string {
	name := "signalbox-" + runtime.GOOS + "-" + runtime.GOARCH
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

func (b *bundle) read(r io.Reader) error {
	b.head = map[string][]byte{}
	entries := tar.NewReader(r)
	for {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the bundle is damaged: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			return fmt.Errorf("the bundle has %q, which is not a regular file", h.Name)
		}
		if err := b.entry(h.Name, entries); err != nil {
			return err
		}
	}
	if err := b.verify(); err != nil {
		return err
	}
	if len(b.sums) > 0 {
		return fmt.Errorf("the bundle is not complete: it lacks %s", slices.Sorted(maps.Keys(b.sums))[0])
	}
	if !b.found {
		return fmt.Errorf("%w: the bundle has no %s", ErrPlatform, programName())
	}
	return nil
}

func (b *bundle) entry(name string, r io.Reader) (err error) {
	switch name {
	case sumsName, sumsName + extension, keyName, keyName + extension:
		if b.sums != nil || b.head[name] != nil {
			return fmt.Errorf("the bundle has %s twice or not at its beginning", name)
		}
		b.head[name], err = readBounded(r, maxHeadBytes)
		return err
	}
	if err := b.verify(); err != nil {
		return err
	}
	want, listed := b.sums[name]
	if !listed {
		return fmt.Errorf("the bundle has %q twice or without a checksum", name)
	}
	delete(b.sums, name)
	return b.copy(name, want, r)
}

// copy reads a file and compares its checksum; it writes the program.
func (b *bundle) copy(name, want string, r io.Reader) error {
	sum := sha256.New()
	to := io.Writer(sum)
	if name == programName() {
		header, err := readBounded(io.LimitReader(r, headerSize), headerSize)
		if err != nil {
			return fmt.Errorf("the bundle is damaged: %s: %w", name, err)
		}
		if err := checkPlatform(header); err != nil {
			return err
		}
		r = io.LimitReader(io.MultiReader(bytes.NewReader(header), r), maxProgramBytes)
		to, b.found = io.MultiWriter(sum, b.program), true
	}
	if _, err := io.Copy(to, r); err != nil {
		return fmt.Errorf("the bundle is damaged: %s: %w", name, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return fmt.Errorf("the bundle is damaged: %s has another checksum", name)
	}
	return nil
}

// verify verifies the checksums, once.
func (b *bundle) verify() error {
	if b.sums != nil {
		return nil
	}
	text, signature := b.head[sumsName], b.head[sumsName+extension]
	if text == nil || signature == nil {
		return fmt.Errorf("the bundle does not begin with %s and its signature: it is not a bundle of a release, or not of a signed one", sumsName)
	}
	if err := b.keys.verify(text, signature, changeOfKey{b.head[keyName], b.head[keyName+extension]}); err != nil {
		return err
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !found {
			return fmt.Errorf("%s has a line that is not a checksum", sumsName)
		}
		sums[name] = sum
	}
	b.sums = sums
	return nil
}

// Sum returns the SHA-256 of a file.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
