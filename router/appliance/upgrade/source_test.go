package upgrade

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// signer is a key pair.
type signer struct {
	public  minisign.PublicKey
	private minisign.PrivateKey
}

func newSigner(t *testing.T) signer {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return signer{public, private}
}

func (s signer) sign(text []byte) []byte {
	return minisign.SignWithComments(s.private, text, "signalbox v2.0.0", "test")
}

// part is a file of a bundle.
type part struct {
	name string
	text []byte
}

// ofThisMachine begins as a program for this machine, and otherIs as one for another.
func ofThisMachine(t *testing.T) []byte {
	t.Helper()
	header := make([]byte, 64)
	copy(header, "\x7fELF")
	for number, name := range elfProcessors {
		if name == runtime.GOARCH {
			header[18], header[19] = byte(number), byte(number>>8)
			return append(header, bytes.Repeat([]byte("program"), 2000)...)
		}
	}
	t.Skip("the processor of this machine is not known")
	return nil
}

func ofAnotherMachine(t *testing.T) []byte {
	text := ofThisMachine(t)
	text[18], text[19] = 243, 0
	if runtime.GOARCH == "riscv64" {
		text[18] = 62
	}
	return text
}

// contents are the parts of a bundle with their checksums, signed.
func contents(by signer, parts ...part) []part {
	var sums []byte
	for _, p := range parts {
		sums = fmt.Appendf(sums, "%x  %s\n", sha256.Sum256(p.text), p.name)
	}
	return append([]part{{sumsName, sums}, {sumsName + extension, by.sign(sums)}}, parts...)
}

func pack(t *testing.T, parts []part) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, p := range parts {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: p.name, Size: int64(len(p.text)), Mode: 0o644})
		if _, failed := w.Write(p.text); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return put(t, filepath.Join(t.TempDir(), "bundle.tar"), b.Bytes())
}

func put(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantExtracted fails unless a release is accepted, and its program is what it was.
func wantExtracted(t *testing.T, file string, keys Keys, program []byte) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	if err := Extract(file, keys, to); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	info, failed := os.Stat(to)
	if err != nil || failed != nil || !bytes.Equal(got, program) || info.Mode().Perm() != 0o755 {
		t.Errorf("got %d bytes, %v, %v, %v", len(got), err, info, failed)
	}
}

// wantRefused fails unless a release is refused with a text, and leaves no file.
func wantRefused(t *testing.T, file string, keys Keys, text string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	err := Extract(file, keys, to)
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %q", err, text)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program was left: %v", err)
	}
}

// TestBundle extracts the program of a bundle, and refuses what is wrong with one.
func TestBundle(t *testing.T) {
	t.Parallel()
	by, other := newSigner(t), newSigner(t)
	keys := Keys{Release: by.public.String()}
	program, document := part{programName(), ofThisMachine(t)}, part{"manual/install.md", []byte("text")}
	good := contents(by, program, document)
	wantExtracted(t, pack(t, good), keys, program.text)

	changed := func(i int, text string) []part {
		parts := append([]part(nil), good...)
		parts[i].text = []byte(text)
		return parts
	}
	foreign := part{programName(), ofAnotherMachine(t)}
	for _, tc := range []struct {
		name  string
		parts []part
		keys  Keys
		want  string
	}{
		{"no key", good, Keys{}, "--key"},
		{"another key", contents(other, program), keys, "not trusted"},
		{"changed checksums", changed(0, string(good[0].text)+"\n"), keys, "the signature is wrong"},
		{"no signature", changed(1, ""), keys, "damaged"},
		{"a changed program", changed(2, string(program.text)+"x"), keys, "another checksum"},
		{"a changed document", changed(3, "tex"), keys, "another checksum"},
		{"a missing document", good[:3], keys, "lacks manual/install.md"},
		{"one file twice", append(good[:4:4], document), keys, "twice or without"},
		{"a file too many", append(good[:4:4], part{"more", nil}), keys, "twice or without"},
		{"checksums twice", append(good[:4:4], good[0]), keys, "twice or not at its beginning"},
		{"checksums at the end", []part{program, good[0], good[1]}, keys, "does not begin with"},
		{"another platform", contents(by, foreign, document), keys, "not for this machine"},
		{"no program", contents(by, document), keys, "the bundle has no " + programName()},
	} {
		t.Run(tc.name, func(t *testing.T) { t.Parallel(); wantRefused(t, pack(t, tc.parts), tc.keys, tc.want) })
	}
	whole, err := os.ReadFile(pack(t, good))
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, put(t, filepath.Join(t.TempDir(), "cut"), whole[:6000]), keys, "damaged")
	wantRefused(t, put(t, filepath.Join(t.TempDir(), "text"), []byte("not a program")), keys, "neither a bundle")
}

// TestProgram extracts a program with its signature beside it.
func TestProgram(t *testing.T) {
	t.Parallel()
	by, other := newSigner(t), newSigner(t)
	keys, program := Keys{Release: by.public.String()}, ofThisMachine(t)
	file := put(t, filepath.Join(t.TempDir(), "signalbox"), program)
	wantRefused(t, file, keys, "there is no signature signalbox.minisig")
	for _, tc := range []struct{ name, text, want string }{
		{"another key", string(other.sign(program)), "not trusted"},
		{"another file", string(by.sign(program[1:])), "the signature is wrong"},
		{"damaged", "untrusted comment\nx\n", "it is damaged"},
	} {
		put(t, file+extension, []byte(tc.text))
		wantRefused(t, file, keys, tc.want)
	}
	put(t, file+extension, by.sign(program))
	wantExtracted(t, file, keys, program)
	hashed := minisign.NewReader(bytes.NewReader(program)) // as "minisign -S" signs since version 0.10
	if _, err := hashed.Read(make([]byte, len(program))); err != nil {
		t.Fatal(err)
	}
	put(t, file+extension, hashed.Sign(by.private))
	wantExtracted(t, file, keys, program)

	foreign := put(t, filepath.Join(t.TempDir(), "signalbox"), ofAnotherMachine(t))
	put(t, foreign+extension, by.sign(ofAnotherMachine(t)))
	wantRefused(t, foreign, keys, "not for this machine")
}

// TestChangeOfKey accepts a release of another key, which the key for changes has signed.
func TestChangeOfKey(t *testing.T) {
	t.Parallel()
	old, next, change := newSigner(t), newSigner(t), newSigner(t)
	keys := Keys{Release: old.public.String(), Change: change.public.String()}
	program := part{programName(), ofThisMachine(t)}
	key, err := next.public.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	with := func(by signer) []part {
		all := contents(next, program)
		return append([]part{{keyName, key}, {keyName + extension, by.sign(key)}}, all...)
	}
	wantExtracted(t, pack(t, with(change)), keys, program.text)
	wantRefused(t, pack(t, with(old)), keys, "not signed by the key")
	wantRefused(t, pack(t, with(next)), keys, "not signed by the key")
	wantRefused(t, pack(t, contents(next, program)), keys, "not trusted")
	wantRefused(t, pack(t, with(change)), Keys{Release: keys.Release}, "not trusted")

	file := put(t, filepath.Join(t.TempDir(), "signalbox"), program.text)
	put(t, file+extension, next.sign(program.text))
	put(t, filepath.Join(filepath.Dir(file), keyName), key)
	put(t, filepath.Join(filepath.Dir(file), keyName+extension), change.sign(key))
	wantExtracted(t, file, keys, program.text)
}
