package systemtest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// TestHangupReloads renews a certificate and renames the log: SIGHUP applies both and
// ends nothing.
func TestHangupReloads(t *testing.T) {
	t.Parallel()
	ca, files := brokertest.NewCA(t), certificateFiles{dir: t.TempDir()}
	files.install(t, ca, "first")
	log := filepath.Join(t.TempDir(), "signalbox.log")
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "broker:\n  listeners:\n  - {protocol: mqtts, address: '127.0.0.1:0', cert_file: '"+files.cert()+"', key_file: '"+files.key()+"'}\n")
	p := serve(t, dataDir(t), configured(settings{configFile: config, "LOG_FILE": log, "HTTP_TLS_CERT_FILE": files.cert(), "HTTP_TLS_KEY_FILE": files.key()}))
	device := mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword)
	if got := p.Stderr.String(); got != "" {
		t.Errorf("logged elsewhere than to the file: %s", got)
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	files.install(t, ca, "second")
	p.Signal(syscall.SIGHUP)
	suite.WaitFor(t, "the log goes on in a new file", func() bool {
		said, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(said), "certificates and log file were reloaded") // which is logged last
	})
	if said := read(t, log+".1") + read(t, log); strings.Count(said, "certificate reloaded") != 1 || strings.Count(said, "certificates were read again") != 1 {
		t.Errorf("the certificates were not read again: %s", lastLines(said))
	}
	if got := shown(t, strings.TrimPrefix(p.API, "https://"), ca); got != "second" {
		t.Errorf("shown: certificate of %q, want second", got)
	}
	files.put(t, files.cert(), "half a renewal")
	p.Signal(syscall.SIGHUP)
	suite.WaitFor(t, "the failure is logged", func() bool {
		said := read(t, log)
		return strings.Contains(said, "certificate not reloaded") && strings.Contains(said, "changed certificates cannot be used")
	})
	if mode(t, log) != 0o600 || !device.IsConnectionOpen() || p.Ended() {
		t.Errorf("mode %v, the device is connected: %t, the service has ended: %t", mode(t, log), device.IsConnectionOpen(), p.Ended())
	}
	p.stop(t)
}

// TestSecondSignalEndsAtOnce stops a service that waits for a request in flight, and
// stops it again.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			for again := true; again; {
				p := serve(t, dataDir(t), configured(settings{"HTTP_LISTEN": ownAddress(t)}))
				begin(t, root(t, p), "late") // which delays the stop
				signalled := time.Now()
				p.Signal(s)
				suite.WaitFor(t, "the stop has begun", func() bool { return !accepts(p.API) })
				p.Signal(s)
				again = time.Since(signalled) > drainTime // it may have been over
				if code := p.ExitCode(); code != 1 && !again {
					t.Errorf("got exit code %d, want 1", code)
				}
			}
		})
	}
}

// TestHealthcheckFindsAnyPort checks a service whose port was chosen by the system.
func TestHealthcheckFindsAnyPort(t *testing.T) {
	t.Parallel()
	p := serve(t, dataDir(t), configured(nil))
	env := configured(nil).environ(p.dir)
	if got := command(t, env, "healthcheck"); got.code != 0 || got.stderr != "" {
		t.Errorf("of a service that runs: %+v", got)
	}
	p.stop(t)
	wantRefused(t, command(t, env, "healthcheck"), "no service runs")
}

// TestWrongPasswordIsNamed logs in with a wrong password.
func TestWrongPasswordIsNamed(t *testing.T) {
	t.Parallel()
	p := serve(t, dataDir(t), configured(nil))
	for _, email := range []string{rootEmail, "nobody@example.com"} {
		status, answer, err := (&caller{url: p.API, client: newClient(t)}).do(t.Context(), "POST", "/api/auth/login", object{"email": email, "password": "wrong password"})
		if err != nil || status != http.StatusUnauthorized || !strings.Contains(string(answer), "email or password is wrong") {
			t.Errorf("%s: got %d %s, %v", email, status, answer, err)
		}
	}
}
