package router

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificates serves the configured certificate and reads it again after a file has
// changed, so that a renewal needs no restart.
type certificates struct {
	files TLSConfig
	log   *slog.Logger

	mu      sync.Mutex // protects the fields below
	current *tls.Certificate
	stamp   [2]fileStamp
	checked time.Time
}

// fileStamp identifies a version of a file.
type fileStamp struct {
	modified time.Time
	size     int64
}

// recheck is the minimum interval between two checks of the files.
const recheck = time.Second

// Check reads the files that the configuration names, as the start does; the error
// names the key.
func (c Config) Check() error {
	if c.TLS.CertFile == "" {
		return nil
	}
	_, err := loadCertificates(c.TLS, nil)
	return err
}

// loadCertificates reads the files; the error names the key.
func loadCertificates(files TLSConfig, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log, stamp: stampOf(files)}
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("http.tls: read %s and %s: %w", files.CertFile, files.KeyFile, err)
	}
	c.current = &cert
	return c, nil
}

func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(time.Now()), nil },
	}
}

// get returns the certificate in the files. While they cannot be read, as in the middle
// of a renewal, it returns the previous one.
func (c *certificates) get(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.checked) < recheck {
		return c.current
	}
	c.checked = now
	if stampOf(c.files) != c.stamp {
		c.read()
	}
	return c.current
}

// reload reads the files now, whether or not they seem to have changed.
func (c *certificates) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
}

// read uses the content of the files, if it is valid. The lock is held.
func (c *certificates) read() {
	stamp := stampOf(c.files)
	cert, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		c.log.Warn("certificate not reloaded", "cert_file", c.files.CertFile, "error", err)
		return
	}
	c.log.Info("certificate reloaded", "cert_file", c.files.CertFile)
	c.current, c.stamp = &cert, stamp
}

func stampOf(files TLSConfig) (s [2]fileStamp) {
	for i, name := range []string{files.CertFile, files.KeyFile} {
		if f, err := os.Stat(name); err == nil {
			s[i] = fileStamp{modified: f.ModTime(), size: f.Size()}
		}
	}
	return s
}
