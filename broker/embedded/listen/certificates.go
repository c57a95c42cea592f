package listen

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
)

// checkInterval is the shortest time between two checks of the files.
const checkInterval = time.Second

// certificates are what a listener presents and trusts. The files are checked for changes
// when a client connects. Files that cannot be used are ignored, and the earlier
// certificates stay in use.
type certificates struct {
	config  Config
	now     func() time.Time
	log     *slog.Logger
	current atomic.Pointer[trust]

	checking sync.Mutex // guards what follows
	checked  time.Time
	seen     fileStamps // of the files that were last tried
}

// trust is the contents of the files. It has a TLS configuration of its own, and with it
// session tickets of its own: a session does not outlive the authority that its certificate
// was verified against.
type trust struct {
	tls   *tls.Config
	shown []broker.ListenerCert
}

// openCertificates reads the files. Its errors name the key.
func openCertificates(c Config, now func() time.Time, log *slog.Logger) (*certificates, error) {
	all := &certificates{config: c, now: now, log: log, checked: now(), seen: stampsOf(c)}
	t, err := load(c)
	if err != nil {
		return nil, err
	}
	all.current.Store(t)
	return all, nil
}

// get returns the current contents of the files. Of concurrent callers one checks the
// files; the others do not wait.
func (c *certificates) get() *trust {
	if c.checking.TryLock() {
		c.refresh()
		c.checking.Unlock()
	}
	return c.current.Load()
}

// refresh reads files that have changed. The caller holds checking.
func (c *certificates) refresh() {
	now := c.now()
	if now.Sub(c.checked) < checkInterval {
		return
	}
	c.checked = now
	if stamps := stampsOf(c.config); !stamps.same(c.seen) {
		c.read(stamps)
	}
}

// reload reads the files now, whether they have changed or not.
func (c *certificates) reload() {
	c.checking.Lock()
	defer c.checking.Unlock()
	c.read(stampsOf(c.config))
}

// read loads the files, and keeps the current contents if they cannot be used. The caller
// holds checking.
func (c *certificates) read(stamps fileStamps) {
	c.seen = stamps
	t, err := load(c.config)
	if err != nil {
		c.log.Error("changed certificates cannot be used; the earlier ones stay in use", "error", err)
		return
	}
	c.current.Store(t)
	c.log.Info("certificates were read again", "certificate", t.shown[0].CertificateID, "name", t.shown[0].Name)
}

// load reads the files.
func load(c Config) (*trust, error) {
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s, key_file: %w", c.key("cert_file"), err)
	}
	t := &trust{
		tls:   &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
		shown: []broker.ListenerCert{describe(pair.Leaf, c.CertFile)},
	}
	if c.CAFile == "" {
		return t, nil
	}
	if t.tls.ClientCAs, err = loadAuthorities(c.CAFile); err != nil {
		return nil, fmt.Errorf("%s: %w", c.key("ca_file"), err)
	}
	t.tls.ClientAuth = tls.VerifyClientCertIfGiven
	if c.RequireCertificate {
		t.tls.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return t, nil
}

func loadAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(file + " holds no certificate")
	}
	return pool, nil
}

// describe names a certificate by its SHA-256 fingerprint and its subject.
func describe(cert *x509.Certificate, file string) broker.ListenerCert {
	sum := sha256.Sum256(cert.Raw)
	return broker.ListenerCert{
		CertificateID: hex.EncodeToString(sum[:]),
		Name:          cert.Subject.CommonName,
		Filename:      filepath.Base(file),
		NotAfter:      cert.NotAfter.UnixMilli(),
	}
}

// fileStamps detect changes of the files: certificate, key and authorities. The stamp of a
// file that cannot be examined is nil.
type fileStamps [3]os.FileInfo

func stampsOf(c Config) (s fileStamps) {
	for i, file := range [...]string{c.CertFile, c.KeyFile, c.CAFile} {
		if info, err := os.Stat(file); err == nil {
			s[i] = info
		}
	}
	return s
}

func (s fileStamps) same(other fileStamps) bool {
	for i, info := range s {
		before := other[i]
		if info == nil || before == nil {
			if info != before {
				return false
			}
			continue
		}
		if !os.SameFile(info, before) || info.Size() != before.Size() || !info.ModTime().Equal(before.ModTime()) {
			return false
		}
	}
	return true
}
