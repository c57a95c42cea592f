package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"signalbox/broker/storage"
)

// ErrDamaged is wrapped by the errors for a file that is not what Create has written.
var ErrDamaged = errors.New("the backup is damaged or incomplete")

func damaged(what string, cause error) error {
	if cause != nil {
		return fmt.Errorf("%w, so use another one: %s (%w)", ErrDamaged, what, cause)
	}
	return fmt.Errorf("%w, so use another one: %s", ErrDamaged, what)
}

// ageIntro is how a file begins that is encrypted.
const ageIntro = "age-encryption.org/"

// maxWindow bounds the memory for decompression.
const maxWindow = 32 << 20

// Extract writes the parts of a backup to a new directory, durably, and verifies the sum
// of each.
func Extract(ctx context.Context, file, dir string, with Identities) (m *Manifest, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	plain, err := decrypt(f, with)
	if err != nil {
		return nil, err
	}
	sealed := newSealReader(plain)
	z, err := zstd.NewReader(sealed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, damaged("it cannot be decompressed", err)
	}
	defer z.Close()
	if m, err = extract(ctx, tar.NewReader(z), dir); err != nil {
		return nil, err
	}
	for _, rest := range []io.Reader{z, sealed} { // up to the seal
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return nil, damaged("its end cannot be read", err)
		}
	}
	return m, storage.SyncDir(dir)
}

// decrypt returns the content of a file that may be encrypted.
func decrypt(f io.Reader, with Identities) (io.Reader, error) {
	r := bufio.NewReader(f)
	intro, err := r.Peek(len(ageIntro))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(intro) != ageIntro {
		return r, nil
	}
	if len(with.age) == 0 {
		return nil, errors.New("the backup is encrypted: give the private key with --identity, or the pass phrase with --passphrase-file")
	}
	plain, err := age.Decrypt(r, with.age...)
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		return nil, errors.New("the backup is encrypted for another key or with another pass phrase: give that one")
	}
	if err != nil {
		return nil, damaged("it cannot be decrypted", err)
	}
	return plain, nil
}

func extract(ctx context.Context, archive *tar.Reader, dir string) (*Manifest, error) {
	m, err := readManifest(archive)
	if err != nil {
		return nil, err
	}
	for _, p := range m.Parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := extractPart(archive, p, dir); err != nil {
			return nil, err
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return nil, damaged("it has more parts than its manifest names, or its end is missing", err)
	}
	return m, nil
}

func readManifest(archive *tar.Reader) (*Manifest, error) {
	h, err := archive.Next()
	if err != nil || h.Name != manifestName || h.Size > maxManifestBytes {
		return nil, damaged("it does not begin with a manifest", err)
	}
	text, err := io.ReadAll(archive)
	m := &Manifest{}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(m)
	}
	if err != nil {
		return nil, damaged("its manifest cannot be read", err)
	}
	return m, m.validate()
}

func extractPart(archive *tar.Reader, p Part, dir string) error {
	h, err := archive.Next()
	if err != nil || h.Name != p.Name || h.Size != p.Size || h.Typeflag != tar.TypeReg {
		return damaged("the part "+p.Name+" is missing", err)
	}
	path := filepath.Join(dir, filepath.FromSlash(p.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum, source := sha256.New(), &tracked{from: archive}
	_, err = io.Copy(io.MultiWriter(f, sum), source)
	switch err := errors.Join(err, f.Sync(), f.Close()); {
	case source.failed != nil:
		return damaged("the part "+p.Name+" cannot be read", source.failed)
	case err != nil:
		return fmt.Errorf("write %s from the backup: %w", path, err)
	case hex.EncodeToString(sum.Sum(nil)) != p.SHA256:
		return damaged("the sum of "+p.Name+" is wrong", nil)
	}
	return storage.SyncDir(filepath.Dir(path))
}

// tracked remembers the error of a reader, to tell it from that of the writer.
type tracked struct {
	from   io.Reader
	failed error
}

// Read implements [io.Reader].
func (t *tracked) Read(b []byte) (int, error) {
	n, err := t.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		t.failed = err
	}
	return n, err
}

// Verify extracts a backup to a new directory, checks the databases for damage, and
// compares their rows with the manifest. Before these are counted, check is called, which
// refuses databases that this program does not know.
func Verify(ctx context.Context, file, dir string, with Identities, check func(*Manifest) error) (*Manifest, error) {
	m, err := Extract(ctx, file, dir, with)
	if err != nil {
		return nil, err
	}
	if err := check(m); err != nil {
		return nil, err
	}
	var names []string
	want := map[string]int64{}
	for _, p := range m.Parts {
		if isDatabase(p.Name) {
			names = append(names, p.Name)
			want[p.Name] = p.Schema
		}
	}
	x, err := examine(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(x.counts, m.Counts) || x.audit != m.Audit || !reflect.DeepEqual(x.schema, want) {
		return nil, damaged("its databases do not have what its manifest states", nil)
	}
	return m, nil
}
