package systemtest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest"
)

// credential is a line of initial-credentials.
var credential = regexp.MustCompile(`(?m)^\s*(API|MQTT) administrator: (\S+)  password: (\S{20})$`)

// credentials returns name and password of the administrators in a text.
func credentials(text string) map[string][2]string {
	found := map[string][2]string{}
	for _, m := range credential.FindAllStringSubmatch(text, -1) {
		found[m[1]] = [2]string{m[2], m[3]}
	}
	return found
}

// wantEntry checks that both administrators can log in.
func wantEntry(t *testing.T, p *service, who map[string][2]string) {
	t.Helper()
	if len(who) != 2 {
		t.Fatalf("got credentials %v, want those of two administrators", slices.Collect(maps.Keys(who)))
	}
	signIn(t, p, who["API"][0], who["API"][1])
	mqtttest.Join(t, p.MQTT, who["MQTT"][0], who["MQTT"][1])
}

func TestFirstStartGeneratesPasswords(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, nil)
	path := filepath.Join(dir, "initial-credentials")
	kept := credentials(read(t, path))
	wantEntry(t, p, kept)
	if got := mode(t, path); got != 0o600 {
		t.Errorf("mode of initial-credentials: got %v, want 0600", got)
	}
	p.stop(t)
	if !strings.Contains(p.Stdout.String(), path) {
		t.Errorf("the file with the passwords is not named:\n%s", p.Stdout.String())
	}
	for who, c := range kept {
		if strings.Contains(p.Stdout.String(), c[1]) {
			t.Errorf("the password of the %s administrator was printed where no person reads", who)
		}
		if strings.Contains(p.Stderr.String(), c[1]) {
			t.Errorf("the password of the %s administrator is in the log", who)
		}
		if got := holders(t, dir, c[1]); !slices.Equal(got, []string{"initial-credentials"}) {
			t.Errorf("the password of the %s administrator is in %v", who, got)
		}
	}
	again := serve(t, dir, nil)
	wantEntry(t, again, kept)
	again.stop(t)
	if said := again.Stdout.String(); len(credentials(said)) != 0 || strings.Contains(said, "First start") {
		t.Errorf("the second start speaks of passwords:\n%s", said)
	}
}

// TestFirstStartIsPrivate starts with umask 0 and checks every file while the service
// runs and after it has ended.
func TestFirstStartIsPrivate(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, nil)
	private := func() {
		t.Helper()
		for path, what := range snapshot(t, dir) {
			want := fs.FileMode(0o600).String()
			switch {
			case what[0] == 'd':
				want = (fs.ModeDir | 0o700).String()
			case filepath.Base(path) == "diagnostics.sock":
				want = (fs.ModeSocket | 0o600).String()
			}
			if !strings.HasPrefix(what, want) {
				t.Errorf("%s: got %.10s, want %s", filepath.Base(path), what, want)
			}
		}
	}
	private()
	p.stop(t)
	private()
	if got := mode(t, filepath.Join(dir, "signalbox.lock")).Perm(); got != 0o600 {
		t.Errorf("signalbox.lock: got %v, want 0600", got)
	}
}

func TestConfiguredPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, configured(nil))
	root(t, p)
	mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword)
	p.stop(t)
	for _, password := range []string{rootPassword, mqttPassword} {
		if strings.Contains(p.Stdout.String()+p.Stderr.String(), password) {
			t.Errorf("%q was printed or logged", password)
		}
		if got := holders(t, dir, password); len(got) != 0 {
			t.Errorf("%q is in %v", password, got)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "initial-credentials")); !os.IsNotExist(err) {
		t.Errorf("initial-credentials was written: %v", err)
	}

	other := serve(t, dir, settings{"ADMIN_EMAIL": "other@example.com", "ADMIN_PASSWORD": "another password",
		"BROKER_ADMIN_USERNAME": "other", "BROKER_ADMIN_PASSWORD": "another password"})
	r := root(t, other)
	mqtttest.Join(t, other.MQTT, mqttAdmin, mqttPassword)
	if mqtttest.Accepts(t, other.MQTT, "other", "another password") || mqtttest.Accepts(t, other.MQTT, mqttAdmin, "another password") {
		t.Error("broker.admin_* counted on the second start")
	}
	login := object{"email": "other@example.com", "password": "another password"}
	if got := r.status(t, "POST", "/api/auth/login", login); got != 401 {
		t.Errorf("admin.* counted on the second start: a log-in answers %d", got)
	}
}

// TestCredentialsOfALaterBroker enables the broker after the first start: the file then
// has both passwords.
func TestCredentialsOfALaterBroker(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	serve(t, dir, settings{"BROKER_ENABLED": "false"}).stop(t)
	p := serve(t, dir, nil)
	wantEntry(t, p, credentials(read(t, filepath.Join(dir, "initial-credentials"))))
	p.stop(t)
	if said := p.Stdout.String(); !strings.Contains(said, "initial-credentials") {
		t.Errorf("this start generated the broker's password, but printed %s", said)
	}
}

// TestPasswordThatCannotBeKept makes the first start fail when it stores a generated
// password. That password is not known to any user, so the next start generates a new
// one.
func TestPasswordThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]settings{
		"API":  {"BROKER_ADMIN_PASSWORD": mqttPassword},
		"MQTT": {"ADMIN_PASSWORD": rootPassword},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			path := filepath.Join(dir, "initial-credentials")
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			failed := launch(t, dir, s)
			if code := failed.ExitCode(); code != 1 {
				t.Fatalf("got exit code %d, want 1: %s", code, failed.Stdout.String())
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			p := serve(t, dir, s)
			kept := credentials(read(t, path))
			kept[map[string]string{"API": "MQTT", "MQTT": "API"}[name]] = map[string][2]string{
				"API": {mqttAdmin, mqttPassword}, "MQTT": {"admin@localhost", rootPassword}}[name]
			wantEntry(t, p, kept)
		})
	}
}

// TestCampaignKillDuringFirstStart kills the first start when a file appears. After the
// next start the administrators can log in with the content of the file of credentials.
func TestCampaignKillDuringFirstStart(t *testing.T) {
	t.Parallel()
	interruptFirstStart(t, func(t *testing.T, p *service) { p.Kill() })
}

// TestCampaignStopDuringFirstStart receives SIGTERM before it is ready.
func TestCampaignStopDuringFirstStart(t *testing.T) {
	t.Parallel()
	interruptFirstStart(t, func(t *testing.T, p *service) { p.stop(t) })
}

func interruptFirstStart(t *testing.T, interrupt func(*testing.T, *service)) {
	t.Helper()
	for _, name := range []string{"signalbox.lock", "signalbox.db", "secret.key", "initial-credentials", "broker.db", "broker.db-wal"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			p := launch(t, dir, nil)
			p.awaitFile(name)
			interrupt(t, p)
			wantEntry(t, serve(t, dir, nil), credentials(read(t, filepath.Join(dir, "initial-credentials"))))
		})
	}
}

// awaitFile polls more often than waitFor does: the moments that matter are short.
func (p *service) awaitFile(name string) {
	again := time.NewTicker(200 * time.Microsecond)
	defer again.Stop()
	for !p.Ended() {
		if _, err := os.Lstat(filepath.Join(p.dir, name)); err == nil {
			return
		}
		<-again.C
	}
}
