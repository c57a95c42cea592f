package systemtest

import (
	"archive/tar"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"signalbox/broker/mqtt/mqtttest"
)

// olderData are data directories that earlier programs have left, stopped, in testdata: each was
// made with the API of the program at the commit in its name. They are never made again, and one is
// added when schemas have changed in several databases.
//
// They have the objects of wantOlderData. The passwords are those of configured.
var olderData = []struct {
	file    string
	token   string           // of the project
	schemas map[string]int64 // of databases whose schemas have changed since then
}{
	{"data-9a70e66.tar.zst", "sbx_W0RK9j9UYJwAShgB90eOHGsb9n7dbslp4_0GAqqc_Yw",
		map[string]int64{"signalbox.db": 3, "broker.db": 5, "streams.db": 1, "bridges.db": 1}},
	{"data-eb0bfb6.tar.zst", "sbx_ECtTKSx4-z2QDOioN5gblYa2oasayglSdo-UGD7PwVE", map[string]int64{"signalbox.db": 7}},
}

// TestOlderData starts the program on data directories of earlier programs: all migrations run on
// what those have really written, and nothing is lost. A second start changes no schema.
func TestOlderData(t *testing.T) {
	t.Parallel()
	for _, older := range olderData {
		t.Run(older.file, func(t *testing.T) {
			t.Parallel()
			dir, env := dataDir(t), configured(nil)
			extract(t, filepath.Join("testdata", older.file), dir)
			for name, want := range older.schemas {
				if got := schemaOf(t, filepath.Join(dir, name)); got != want {
					t.Errorf("%s has schema %d, want %d", name, got, want)
				}
			}
			p := serve(t, dir, env)
			wantOlderData(t, p, older.token)
			p.stop(t)
			for name, before := range older.schemas {
				if got := schemaOf(t, filepath.Join(dir, name)); got <= before {
					t.Errorf("%s has schema %d after the start, want more than %d", name, got, before)
				}
				if copies, err := filepath.Glob(filepath.Join(dir, name+".before-v*")); err != nil || len(copies) != 1 {
					t.Errorf("copies of %s: %q, %v", name, copies, err)
				}
			}
			again := serve(t, dir, env)
			signIn(t, again, rootEmail, rootPassword)
			again.stop(t)
			if got := command(t, env.environ(dir), "doctor"); !strings.Contains(got.stdout, "decrypts all 3 secrets") || !strings.Contains(got.stdout, "audit log is intact") {
				t.Errorf("doctor: %+v", got)
			}
		})
	}
}

// wantOlderData checks that every object works as it did.
func wantOlderData(t *testing.T, p *service, token string) {
	t.Helper()
	r := root(t, p)
	signIn(t, p, "ada@example.com", "engine no. 1")
	editor := *r
	editor.token = token
	if got := strings.Join(editor.names(t, "clients"), " "); got != "admin pump-7 pump-8" {
		t.Errorf("clients %q", got)
	}
	for path, want := range map[string][]string{
		"/api/projects":                     {`"hall"`, `"Hall 3"`, `"default"`},
		r.inProject("/tokens"):              {`"ci"`},
		r.inProject("/members"):             {`"added_at":"20`}, // of the owner
		r.inProject("/brokers"):             {`"line-1"`, `"hasPassword":true`, `"mqtt://127.0.0.1:1"`},
		r.at("/clients?verbose=true"):       {`"Pump 7"`, `"pumps"`, `"disabled":true`},
		r.at("/roles?verbose=true"):         {`"plant/#"`, `"cmd/#"`, `"subscribePattern"`},
		r.at("/messages/retained"):          {`"value 1"`, `"value 2"`, `"value 3"`},
		r.at("/streams"):                    {`"kept"`, `"persist":true`, `"messages":3`},
		r.at("/bridges/http-bridge/config"): {`"http://127.0.0.1:1/in"`, `"********"`},
		r.at("/bridges/http-bridge/status"): {`"queuedMessages":3`},
	} {
		got := r.text(t, path)
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s lacks %s: %s", path, part, got)
			}
		}
	}
	if mqtttest.Accepts(t, p.MQTT, "pump-8", "drip") {
		t.Error("a disabled client gets in")
	}
	c := mqtttest.Dial(t, "mqtt://"+p.MQTT, nil, 4)
	c.Connect(mqtttest.WithID("pump-7"), mqtttest.As("pump-7", "drip"), mqtttest.Persistent)
	c.WantMessage("cmd/1", "waiting")
	c.Disconnect()
}

// schemaOf returns the version of the schema of a database.
func schemaOf(t *testing.T, path string) (version int64) {
	t.Helper()
	d, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	err = d.QueryRowContext(t.Context(), `SELECT max(version_id) FROM goose_db_version`).Scan(&version)
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return version
}

// extract writes the files of an archive to a new directory.
func extract(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, h.Name), string(content))
	}
}
