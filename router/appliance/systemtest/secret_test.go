package systemtest

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// TestRotateSecret seals the stored secrets with a new key: the connection to a broker,
// and the configuration of a bridge, still work, also after killed rotations.
func TestRotateSecret(t *testing.T) {
	t.Parallel()
	server, dir, env := brokertest.Mosquitto(t), dataDir(t), configured(nil)
	wantRefused(t, command(t, env.environ(dataDir(t)), "secret", "rotate"), "nothing to rotate")
	p := serve(t, dir, env)
	r := root(t, p)
	var made struct{ ID string }
	r.must(t, "POST", "/api/projects/"+r.project+"/brokers", object{"name": "plant", "url": "mqtt://" + server.Addr,
		"username": server.AdminUsername, "password": string(server.AdminPassword)}, &made)
	r.must(t, "PUT", r.at("/bridges/http-bridge/config"), object{"connections": []object{{"name": "history",
		"connection":    object{"url": "http://127.0.0.1:1/ingest", "token": "sealed with the key"},
		"topicMappings": []object{{"name": "all", "mqttTopics": []string{"plant/#"}}}}}}, nil)
	wantRefused(t, command(t, env.environ(dir), "secret", "rotate"), "another signalbox is running")
	p.stop(t)

	key := filepath.Join(dir, "secret.key")
	for range 4 {
		killAtNextKey(t, dir, env)
		wantSecretsWork(t, dir, env, made.ID)
	}
	before := read(t, key)
	got := command(t, env.environ(dir), "secret", "rotate")
	if got.code != 0 || !strings.Contains(got.stdout, "3 secrets") || read(t, key) == before {
		t.Errorf("rotate: %+v", got)
	}
	if _, err := os.Stat(key + ".next"); !os.IsNotExist(err) || mode(t, key) != 0o600 {
		t.Errorf("the new key's file: %v, mode %v", err, mode(t, key))
	}
	wantSecretsWork(t, dir, env, made.ID)
	wantRotationsAudited(t, dir)
	write(t, key, before)
	wantRefused(t, command(t, env.environ(dir), "secret", "rotate"), "secret.key", "cannot be unsealed")
}

// killAtNextKey starts a rotation and kills it as soon as the new key exists.
func killAtNextKey(t *testing.T, dir string, s settings) {
	t.Helper()
	cmd := prepare(s.environ(dir), "secret", "rotate")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		cmd.Wait() //nolint:errcheck // it was killed, or was faster
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
			if _, err := os.Stat(filepath.Join(dir, "secret.key.next")); err == nil {
				cmd.Process.Kill() //nolint:errcheck // it may have ended
				<-done
				ended = true
			}
		}
	}
}

// wantSecretsWork starts the service, which must reach the broker and have the
// configuration of the bridge.
func wantSecretsWork(t *testing.T, dir string, s settings, brokerID string) {
	t.Helper()
	p := serve(t, dir, s)
	r := root(t, p)
	suite.WaitFor(t, "the remote broker is connected", func() bool { return r.connected(t, brokerID) })
	if got := r.text(t, r.at("/bridges/http-bridge/config")); !strings.Contains(got, "127.0.0.1:1/ingest") {
		t.Errorf("the bridge's configuration: %s", got)
	}
	if got := r.status(t, "GET", "/readyz", nil); got != http.StatusOK {
		t.Errorf("/readyz: %d", got)
	}
	p.stop(t)
}

// wantRotationsAudited checks that the rotations are in the audit log.
func wantRotationsAudited(t *testing.T, dir string) {
	t.Helper()
	var rows int
	d, err := sql.Open("sqlite", filepath.Join(dir, "signalbox.db"))
	if err == nil {
		err = d.QueryRowContext(t.Context(), "SELECT count(*) FROM audit WHERE operation = 'rotateSecret' AND actor_kind = 'command'").Scan(&rows)
	}
	if err != nil || d.Close() != nil || rows == 0 {
		t.Errorf("%d rows of rotations: %v", rows, err)
	}
}
