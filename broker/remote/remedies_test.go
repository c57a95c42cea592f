package remote

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

// TestRemediesForNamesLikeOptions runs the lines about a user whose name a program could take for
// an option, with Mosquitto's own programs.
func TestRemediesForNamesLikeOptions(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.InitiatedDynsec())
	host, port, err := net.SplitHostPort(server.Addr)
	must(t, err)
	passwords := filepath.Join(t.TempDir(), "passwd")
	must(t, os.WriteFile(passwords, nil, 0o600))
	here := strings.NewReplacer("mosquitto_ctrl -u admin", "mosquitto_ctrl -h "+host+" -p "+port+" -u admin -P "+string(server.AdminPassword),
		passwordFile, passwords, "systemctl reload mosquitto", "true")
	for _, username := range []string{"-b", "-p", "--help", "-o 'x'"} {
		target := server.Target()
		target.Username, target.Password = username, "secret of "+broker.Secret(username)
		for _, cause := range []broker.ConnectCause{broker.CauseCredentialsWanted, broker.CauseCredentialsRefused} {
			for _, r := range credentialRemedies(cause, quoted(username)) {
				cmd := exec.Command("/bin/sh", "-ec", here.Replace(r.Lines))
				typed := string(target.Password) + "\n" // asked for twice
				cmd.Stdin = strings.NewReader(typed + typed)
				if output, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(output), "rror:") {
					t.Errorf("%s: %v, %s", r.Lines, err, output)
				}
			}
		}
		b := open(t, quick(), target)
		if err := b.Ready(t.Context()); err != nil {
			t.Errorf("%s cannot log in: %v", username, err)
		}
		if _, err := b.GetDefaultACLAccess(t.Context()); err != nil {
			t.Errorf("%s may not manage the broker: %v", username, err)
		}
		content, err := os.ReadFile(passwords)
		must(t, err)
		if !strings.Contains("\n"+string(content), "\n"+username+":$7$") {
			t.Errorf("the password file has no user %s: %s", username, content)
		}
	}
}
