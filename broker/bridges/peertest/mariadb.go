package peertest

import (
	"crypto/rand"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// StartMariaDB starts a MariaDB that ends with the test. It has one user.
func StartMariaDB(t testing.TB, opts ...Option) *Database {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	binary := find(t, "mariadb-server", "mariadbd", "/usr/sbin/mariadbd")
	install := find(t, "mariadb-server", "mariadb-install-db", "/usr/bin/mariadb-install-db")
	f := newFiles(t)
	d := &Database{Driver: "mariadb", Username: username, Password: rand.Text(), Name: databaseName}
	scratch := "--tmpdir=" + f.dir // it deletes the files of others in a shared directory
	f.run(t, install, "--no-defaults", "--datadir="+f.path("data"), scratch, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-log-bin", "--innodb-log-file-size=8M")

	settings := []string{"--datadir=" + f.path("data"), scratch, "--bind-address=127.0.0.1", "--socket=" + f.path("socket"),
		"--pid-file=" + f.path("pid"), "--init-file=" + f.write(t, "init.sql", d.mariaDBUsers()), "--skip-name-resolve",
		"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--character-set-server=utf8mb4", "--default-time-zone=+00:00"}
	if !o.durable {
		settings = append(settings, "--innodb-flush-log-at-trx-commit=2")
	}
	if o.tls {
		ca, cert, key := f.certificate(t)
		d.CA = ca
		settings = append(settings, "--ssl-cert="+cert, "--ssl-key="+key)
	}
	d.peer = &peer{
		name: "MariaDB", binary: binary, dir: f.dir,
		serves: "ready for connections", taken: "Address already in use", end: syscall.SIGTERM,
		command: func(testing.TB) []string {
			return append([]string{"--no-defaults", "--port=" + strconv.Itoa(d.Port)}, settings...)
		},
	}
	d.first(t, func() { d.choosePort(t) })
	at := mysql.NewConfig()
	at.Net, at.Addr, at.User, at.Passwd, at.DBName = "tcp", d.Address(), d.Username, d.Password, d.Name
	d.open(t, "mysql", at.FormatDSN())
	return d
}

// mariaDBUsers returns the statements that the server executes at every start: they create the
// user and the database if they do not exist, and delete users without a password.
func (d *Database) mariaDBUsers() []byte {
	account := quote(d.Username) + "@'127.0.0.1'"
	return []byte(strings.Join([]string{
		"CREATE DATABASE IF NOT EXISTS " + d.Name + ";",
		"CREATE USER IF NOT EXISTS " + account + " IDENTIFIED BY " + quote(d.Password) + ";",
		"GRANT ALL ON *.* TO " + account + " WITH GRANT OPTION;",
		"DROP USER IF EXISTS root@localhost, ''@localhost;",
		"",
	}, "\n"))
}
