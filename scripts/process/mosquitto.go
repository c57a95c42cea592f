package process

import (
	"os"
	"os/exec"
	"testing"
)

// Mosquitto returns the path of Mosquitto.
func Mosquitto(t testing.TB) (path string) {
	t.Helper()
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, "mosquitto is not installed (apt-get install mosquitto)")
	return ""
}

// Missing ends a test for which something is not installed. It skips the test, or
// fails it where the environment variable CI is set.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}
