package embedded

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// tool runs one of Mosquitto's command-line clients as the admin. If they are not installed
// the test is skipped, but not in CI.
func tool(t *testing.T, b *Broker, name string, args ...string) (output string, err error) {
	t.Helper()
	path, lookErr := exec.LookPath(name)
	if lookErr != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("%s is not installed", name)
	}
	host, port, err := net.SplitHostPort(b.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	all := append([]string{"-h", host, "-p", port, "-u", adminName, "-P", adminPassword}, args...)
	cmd := exec.CommandContext(ctx, path, all...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// TestMosquittoCtrl runs the subcommands of "mosquitto_ctrl dynsec". Success is silence or
// the output that is expected.
func TestMosquittoCtrl(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, c := range []struct {
		args  string
		shows []string // parts of the output
	}{
		{"createRole r", nil},
		{"createRole r", []string{"Role already exists"}},
		{"addRoleACL r publishClientSend t/# allow 3", nil},
		{"addRoleACL r subscribePattern t/# deny", nil},
		{"removeRoleACL r subscribePattern t/#", nil},
		{"getRole r", []string{"Rolename: r", "publishClientSend", "t/#"}},
		{"listRoles", []string{"admin", "r"}},
		{"createClient c -p secret", nil},
		{"setClientPassword c other", nil},
		{"setClientId c id", nil},
		{"addClientRole c r 5", nil},
		{"getClient c", []string{"Username: c", "Clientid: id", "r (priority: 5)"}},
		{"createGroup g", nil},
		{"addGroupRole g r 2", nil},
		{"addGroupClient g c 4", nil},
		{"getGroup g", []string{"Groupname: g", "r (priority: 2)", "c"}},
		{"listGroups", []string{"g"}},
		{"listClients", []string{"admin", "c"}},
		{"setAnonymousGroup g", nil},
		{"getAnonymousGroup", []string{"g"}},
		{"deleteGroup g", []string{"Deleting the anonymous group is forbidden"}},
		{"setDefaultACLAccess subscribe allow", nil},
		{"getDefaultACLAccess", []string{"publishClientSend    : deny", "subscribe            : allow"}},
		{"disableClient c", nil},
		{"enableClient c", nil},
		{"removeGroupClient g c", nil},
		{"removeGroupRole g r", nil},
		{"removeClientRole c r", nil},
		{"deleteClient c", nil},
		{"deleteClient c", []string{"Client not found"}},
		{"deleteRole r", nil},
	} {
		output, err := tool(t, b, "mosquitto_ctrl", append([]string{"dynsec"}, strings.Fields(c.args)...)...)
		if err != nil {
			t.Errorf("%s: %v: %s", c.args, err, output)
		}
		if c.shows == nil && strings.Contains(output, "rror") {
			t.Errorf("%s: %s", c.args, output)
		}
		for _, part := range c.shows {
			if !strings.Contains(output, part) {
				t.Errorf("%s: %q is not in:\n%s", c.args, part, output)
			}
		}
	}
}

func TestMosquittoPubAndSub(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.PublishClientSend, "t/#", true))
	alice := []string{"-u", "alice", "-P", "pw"}
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(1, "#")
	for _, version := range []string{"mqttv31", "mqttv311", "mqttv5"} {
		if output, err := tool(t, b, "mosquitto_pub", append(alice, "-V", version, "-q", "1", "-t", "t/1", "-m", version)...); err != nil {
			t.Errorf("%s: %v: %s", version, err, output)
		}
		if got := string(watcher.Want(packet.Publish).Payload); got != version {
			t.Errorf("received %q, want %q", got, version)
		}
		output, err := tool(t, b, "mosquitto_pub", append(alice, "-V", version, "-q", "1", "-t", "no", "-m", "x")...)
		if refused := strings.Contains(output, "Not authorized"); err != nil || refused != (version == "mqttv5") {
			t.Errorf("%s, denied: %v: %s", version, err, output)
		}
	}
	if output, _ := tool(t, b, "mosquitto_sub", append(alice, "-V", "mqttv5", "-t", "t/1")...); !strings.Contains(output, "denied") {
		t.Errorf("a subscription that is denied: %s", output)
	}
	if output, err := tool(t, b, "mosquitto_sub", "-V", "mqttv5", "-t", "$SYS/broker/version", "-C", "1"); err != nil ||
		!strings.Contains(output, "signalbox") {
		t.Errorf("$SYS/broker/version: %v: %s", err, output)
	}
	if output, err := tool(t, b, "mosquitto_sub", "-P", "wrong", "-t", "#"); err == nil ||
		!strings.Contains(output, "not authorised") {
		t.Errorf("a wrong password: %v: %s", err, output)
	}
}
