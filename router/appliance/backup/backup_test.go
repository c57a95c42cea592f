package backup

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// certificate and sentinelKey are PEM blocks; what is in them is not read.
const (
	certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	sentinelKey = "-----BEGIN PRIVATE KEY-----\nc2VudGluZWw=\n-----END PRIVATE KEY-----\n"
)

// TestPrivateKeys checks that only an encrypted backup has files that may contain private
// keys.
func TestPrivateKeys(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"encrypted": {To: Recipient{[]age.Recipient{identity.Recipient()}}}, "not encrypted": {}} {
		m, err := Extract(t.Context(), fixture(t, o), filepath.Join(t.TempDir(), "x"), Identities{[]age.Identity{identity}})
		if err != nil {
			t.Fatal(err)
		}
		encrypted := o.To.age != nil
		if m.Has("certs/server.pem") != encrypted || m.Has("certs/key.der") != encrypted || !m.Has("certs/ca.pem") || len(m.Omitted) == 2 == encrypted {
			t.Errorf("%s: parts %v, omitted %v", name, m.Parts, m.Omitted)
		}
	}
}

// fixture returns the path of an archive with certificates only, which is small enough
// to change each of its bytes.
func fixture(t *testing.T, o Options) string {
	t.Helper()
	dir, stage := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{identityName: `{"id":"a"}`, "certs/ca.pem": certificate, "certs/server.pem": certificate + sentinelKey, "certs/key.der": "\x30\x82", "signalbox.db": "not read here"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &creation{dir: dir, stage: stage, options: o, manifest: Manifest{Format: format, Version: "test"}}
	if err := c.addFile(t.Context(), "signalbox.db"); err != nil {
		t.Fatal(err)
	}
	if err := c.addIdentity(t.Context(), []string{"signalbox.db"}); err != nil {
		t.Fatal(err)
	}
	if err := c.addCertificates(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.Config != nil {
		if err := c.add(t.Context(), ConfigName, o.Config); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(stage, "archive")
	if err := c.writeFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEveryFlippedByteIsFound changes each byte of a backup, and cuts it at each length; of an encrypted
// one, at many.
func TestEveryFlippedByteIsFound(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	flipEachByte(t, fixture(t, Options{}), Identities{})
	flipEachByte(t, fixture(t, Options{To: Recipient{[]age.Recipient{identity.Recipient()}}}), Identities{[]age.Identity{identity}})
}

func flipEachByte(t *testing.T, file string, with Identities) {
	t.Helper()
	if _, err := Extract(t.Context(), file, filepath.Join(t.TempDir(), "whole"), with); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed")
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		wrong := [][]byte{b}
		if with.age == nil || i%16 == 0 { // decrypting takes long
			wrong = append(wrong, whole[:i])
		}
		for _, text := range wrong {
			if err := os.WriteFile(changed, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Extract(context.Background(), changed, filepath.Join(t.TempDir(), "x"), with); err == nil {
				t.Errorf("byte %d changed, or cut there: no error (%d bytes)", i, len(text))
			}
		}
	}
	if err := os.WriteFile(changed, append(bytes.Clone(whole), 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Extract(t.Context(), changed, filepath.Join(t.TempDir(), "x"), with); err == nil {
		t.Error("a byte appended: no error")
	}
}

// TestOtherProgramsCanRead decompresses a backup as any program does.
func TestOtherProgramsCanRead(t *testing.T) {
	t.Parallel()
	f, err := os.Open(fixture(t, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	b, err := io.ReadAll(z)
	if err != nil || !strings.HasPrefix(string(b), manifestName) {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
}

func TestNamesOfParts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"signalbox.db": true, "certs/ca.pem": true, "certs/plant/ca.pem": true, "secret.key": true,
		"history.db": false, "certs": false, "certs/": false, "certs/../secret.key": false, "../x": false, "/etc/passwd": false, `certs/..\x`: false, "signalbox.lock": false,
	} {
		if allowed(name) != want {
			t.Errorf("%q: got %v", name, !want)
		}
	}
}
