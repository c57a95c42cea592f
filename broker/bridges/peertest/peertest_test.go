package peertest

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// TestDatabase stops and kills each server, and checks that its data survives.
func TestDatabase(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...Option) *Database{"PostgreSQL": StartPostgres, "MariaDB": StartMariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			d.Exec(t, "CREATE TABLE seen (n INTEGER, text VARCHAR(20))")
			d.Exec(t, "INSERT INTO seen VALUES (1, 'before')")
			d.Stop(t)
			d.Start(t)
			d.Exec(t, "INSERT INTO seen VALUES (2, NULL)")
			d.Kill(t)
			d.Start(t)
			want := [][]string{{"1", "before"}, {"2", "NULL"}}
			if diff := cmp.Diff(want, d.Query(t, "SELECT n, text FROM seen ORDER BY n")); diff != "" {
				t.Errorf("rows after a stop and a kill (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"1", "2"}, d.Column(t, "SELECT n FROM seen ORDER BY n")); diff != "" {
				t.Errorf("column (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPostgresTLS verifies the server's certificate.
func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	d := StartPostgres(t, TLS(), Durable())
	config, err := pgx.ParseConfig("")
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.Port, config.Database = d.Host, uint16(d.Port), d.Name
	config.User, config.Password, config.TLSConfig = d.Username, d.Password, trust(t, d)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var encrypted bool
	if err := conn.QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&encrypted); err != nil || !encrypted {
		t.Errorf("got %v and %v, want a connection with TLS", encrypted, err)
	}
}

// TestMariaDBTLS verifies the server's certificate.
func TestMariaDBTLS(t *testing.T) {
	t.Parallel()
	d := StartMariaDB(t, TLS(), Durable())
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.Passwd, config.DBName = "tcp", d.Address(), d.Username, d.Password, d.Name
	config.TLS = trust(t, d)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connector.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func trust(t *testing.T, d *Database) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(d.CA) {
		t.Fatal("the authority is no certificate")
	}
	return &tls.Config{RootCAs: pool, ServerName: d.Host}
}
