package apitest_test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/handlers/vault"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

// presentKey returns the key of the shared database of a node, nil if it does not have it.
func presentKey(t *testing.T, dir string) (key []byte) {
	t.Helper()
	err := db.View(t.Context(), filepath.Join(dir, "signalbox.db"), func(d *db.DB) error {
		state, keys, err := d.SharedKeys(t.Context())
		if err != nil || state.ID == "" {
			return err
		}
		machine, err := vault.Open(filepath.Join(dir, "secret.key"), false)
		if err != nil {
			return err
		}
		stored := map[string][]byte{}
		for _, k := range keys {
			stored[k.ID] = k.Sealed
		}
		ring := vault.NewKeyring(machine, db.SharedKeyID)
		if err := ring.Use(state.ID, stored); err != nil {
			return err
		}
		key, err = ring.Export(state.ID)
		if errors.Is(err, vault.ErrNoKey) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// wantNoKey checks that no file below a data directory has one of the keys.
func wantNoKey(t *testing.T, dir string, keys ...[]byte) {
	t.Helper()
	files := 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a file of a snapshot that was replaced
		}
		files++
		for _, key := range keys {
			for _, form := range []string{string(key), hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)),
				base64.RawStdEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key)} {
				if bytes.Contains(text, []byte(form)) {
					t.Errorf("%s has a key of the cluster", path)
				}
			}
		}
		return err
	})
	if err != nil || files < 5 {
		t.Fatalf("%d files were searched: %v", files, err)
	}
}

// sharedKeySites starts services that share their data, and returns their configurations, too.
func sharedKeySites(t *testing.T, n int) (all []*site, configs []appliance.Config) {
	t.Helper()
	all = startSites(t, n, func(c *appliance.Config) {
		shareData(c)
		configs = append(configs, *c)
	})
	return all, configs
}

// TestClusterKey has three nodes share the data of the platform, and then removes one. The key of the
// secrets is in no file of any node, and is another one afterwards; the node that has left still reads
// the secrets of its own copy.
func TestClusterKey(t *testing.T) {
	t.Parallel()
	all, configs := sharedKeySites(t, 3)
	first, last := all[0], all[2]
	path := formCluster(t, all, "dynsec")
	var before []byte
	for i, s := range all {
		waitFor(t, "the node has the key", func() bool { return presentKey(t, configs[i].DataDir) != nil })
		if before == nil {
			before = presentKey(t, configs[i].DataDir)
		}
		if !bytes.Equal(presentKey(t, configs[i].DataDir), before) {
			t.Errorf("node %d has another key", s.id)
		}
	}
	wantReads := func(root *apitest.Caller, next *site) {
		t.Helper()
		waitFor(t, "the broker of another node is reached with its stored password", func() bool {
			return root.Get("/api/projects/"+first.Project+"/brokers/"+next.at+"/clients").Status == 200
		})
	}
	second := all[1].logIn(t)
	third := last.logIn(t)
	wantReads(second, last)
	wantReads(third, all[1])
	for _, c := range configs {
		wantNoKey(t, c.DataDir, before)
	}

	first.leaveCluster(t, path, 3)
	waitState(t, first, path, "active", 2)
	var after []byte
	waitFor(t, "the nodes that stay have a new key", func() bool {
		after = presentKey(t, configs[0].DataDir)
		return after != nil && !bytes.Equal(after, before) && bytes.Equal(presentKey(t, configs[1].DataDir), after)
	})
	wantReads(second, last) // which is no node any more
	waitFor(t, "the node that left has the data as its own", func() bool {
		return third.Post("/api/projects", object{"name": "alone"}).Status == 200
	})
	wantReads(third, all[1])
	if got := presentKey(t, configs[2].DataDir); !bytes.Equal(got, before) {
		t.Error("the node that has left does not have the key of its own copy any more")
	}
	for _, c := range configs {
		wantNoKey(t, c.DataDir, before, after)
	}
}

// TestClusterKeyArrivesLate ends a node after it has received the content and before it has received the
// key: it starts without it, and asks for it as soon as it reaches the other one.
func TestClusterKeyArrivesLate(t *testing.T) {
	t.Parallel()
	all, configs := sharedKeySites(t, 2)
	formCluster(t, all, "dynsec")
	waitFor(t, "the node has the key", func() bool { return presentKey(t, configs[1].DataDir) != nil })
	for _, s := range slices.Backward(all) { // the second one stores its last rows with the help of the first one
		s.Stop()
	}
	file, err := sql.Open("sqlite", filepath.Join(configs[1].DataDir, "signalbox.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.ExecContext(t.Context(), "DELETE FROM shared_keys WHERE id = (SELECT key_id FROM shared_state)"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	start := func(c appliance.Config) *appliance.Appliance {
		service, err := appliance.Start(t.Context(), c, appliance.Program{Version: "test"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := service.StopWithin(suite.HangLimit); err != nil {
				t.Error(err)
			}
		})
		return service
	}
	second := start(configs[1])
	reads := func(want error) bool {
		rows, err := second.API.DB.AllBrokers(t.Context())
		if err != nil || len(rows) == 0 {
			t.Fatalf("%d connections, %v", len(rows), err)
		}
		for _, row := range rows {
			if len(row.Secrets) == 0 {
				continue
			}
			if _, _, err = second.API.Certificates(row); !errors.Is(err, want) {
				return false
			}
		}
		return true
	}
	if !reads(db.ErrNoKey) {
		t.Error("the node reads secrets without the key")
	}
	start(configs[0])
	waitFor(t, "the key arrives", func() bool { return reads(nil) })
}
