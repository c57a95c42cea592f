package peertest

import (
	"crypto/rand"
	"net/url"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// StartPostgres starts a PostgreSQL that ends with the test. It requires passwords.
func StartPostgres(t testing.TB, opts ...Option) *Database {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	binary := find(t, "postgresql", "/usr/lib/postgresql/*/bin/postgres", "postgres")
	f := newFiles(t)
	d := &Database{Driver: "postgresql", Username: username, Password: rand.Text(), Name: databaseName}
	password := f.write(t, "password", []byte(d.Password))
	initdb := filepath.Join(filepath.Dir(resolve(t, binary)), "initdb")
	f.run(t, initdb, "--pgdata="+f.path("data"), "--username="+d.Username, "--pwfile="+password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions")

	settings := []string{"-D", f.path("data"), "-h", "127.0.0.1", "-k", "", "-F",
		"-c", "shared_buffers=16MB", "-c", "max_wal_size=128MB", "-c", "log_timezone=UTC", "-c", "timezone=UTC"}
	if o.durable {
		settings = append(settings, "-c", "fsync=on")
	}
	if o.tls {
		ca, cert, key := f.certificate(t)
		d.CA = ca
		settings = append(settings, "-c", "ssl=on", "-c", "ssl_cert_file="+cert, "-c", "ssl_key_file="+key)
	}
	d.peer = &peer{
		name: "PostgreSQL", binary: binary, dir: f.dir,
		serves: "ready to accept connections", taken: "could not bind",
		end: syscall.SIGINT, // closes connections, unlike SIGTERM
		command: func(testing.TB) []string {
			return append([]string{"-p", strconv.Itoa(d.Port)}, settings...)
		},
	}
	d.first(t, func() { d.choosePort(t) })
	d.createPostgresDatabase(t)
	return d
}

// createPostgresDatabase creates the database, over a connection to another one.
func (d *Database) createPostgresDatabase(t testing.TB) {
	t.Helper()
	at := url.URL{Scheme: "postgres", Host: d.Address(), User: url.UserPassword(d.Username, d.Password), Path: "/postgres"}
	d.open(t, "pgx", at.String())
	d.Exec(t, "CREATE DATABASE "+d.Name)
	d.pool.Close()
	at.Path = "/" + d.Name
	d.open(t, "pgx", at.String())
}

// resolve follows links to a program, next to which the other programs are.
func resolve(t testing.TB, binary string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(binary)
	if err != nil {
		t.Fatalf("find %s: %v", binary, err)
	}
	return path
}
