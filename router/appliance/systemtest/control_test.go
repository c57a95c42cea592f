package systemtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// subcommands are all of "mosquitto_ctrl dynsec" except init, which only writes a file,
// in a sensible order; some of them are refused. After setDefaultACLAccess the tool
// does not request the result: it sends a member that Mosquitto 2.0 itself ignores and
// this broker uses.
var subcommands = []string{
	"getDefaultACLAccess",
	"setDefaultACLAccess subscribe allow",
	"setDefaultACLAccess unsubscribe deny",
	"getAnonymousGroup",
	"createRole sensor",
	"createRole sensor",
	"createRole spare",
	"addRoleACL sensor publishClientSend plant/# allow 3",
	"addRoleACL sensor publishClientSend plant/secret deny 9",
	"addRoleACL sensor publishClientReceive cmd/# allow",
	"addRoleACL sensor subscribePattern cmd/# allow",
	"addRoleACL sensor subscribeLiteral cmd/one deny 5",
	"addRoleACL sensor unsubscribePattern cmd/# allow",
	"addRoleACL sensor unsubscribeLiteral cmd/one allow",
	"addRoleACL sensor publishClientSend plant/# allow 3",
	"addRoleACL sensor nonsense plant/# allow",
	"addRoleACL nosuch publishClientSend plant/# allow",
	"removeRoleACL sensor unsubscribeLiteral cmd/one",
	"removeRoleACL sensor unsubscribeLiteral cmd/none",
	"getRole sensor",
	"getRole nosuch",
	"listRoles",
	"listRoles 1 1",
	"createClient pump-7 -p secret",
	"createClient pump-7 -p secret",
	"createClient pump-8 -p secret -c P8",
	"createClient spare -p secret",
	"setClientPassword pump-7 better",
	"setClientPassword nosuch better",
	"setClientId pump-7 P7",
	"setClientId pump-7",
	"setClientId nosuch P7",
	"addClientRole pump-7 sensor 5",
	"addClientRole pump-7 sensor 5",
	"addClientRole pump-7 nosuch",
	"addClientRole nosuch sensor",
	"addClientRole spare spare",
	"removeClientRole spare spare",
	"getClient pump-7",
	"getClient nosuch",
	"listClients",
	"listClients 2 1",
	"disableClient pump-8",
	"disableClient nosuch",
	"getClient pump-8",
	"enableClient pump-8",
	"enableClient nosuch",
	"createGroup pumps",
	"createGroup pumps",
	"createGroup spare",
	"addGroupRole pumps sensor 2",
	"addGroupRole pumps nosuch",
	"addGroupRole spare spare",
	"removeGroupRole spare spare",
	"addGroupClient pumps pump-8 4",
	"addGroupClient pumps pump-8 4",
	"addGroupClient pumps nosuch",
	"addGroupClient nosuch pump-8",
	"addGroupClient spare spare",
	"removeGroupClient spare spare",
	"getGroup pumps",
	"getGroup nosuch",
	"getClient pump-8",
	"listGroups",
	"listGroups 1 0",
	"setAnonymousGroup spare",
	"getAnonymousGroup",
	"setAnonymousGroup nosuch",
	"setAnonymousGroup pumps",
	"deleteGroup spare",
	"deleteGroup spare",
	"deleteClient spare",
	"deleteClient spare",
	"deleteRole spare",
	"deleteRole spare",
	"nosuchCommand",
}

// TestMosquittoCtrl runs the same subcommands against this broker and a real Mosquitto:
// the tool must not show a difference. Then the API shows the result.
func TestMosquittoCtrl(t *testing.T) {
	t.Parallel()
	p, real := serve(t, dataDir(t), configured(nil)), brokertest.Mosquitto(t)
	ctrl := func(address, password, line string) outcome {
		t.Helper()
		return finish(t, tool(t, "mosquitto_ctrl", address, mqttAdmin, password, append([]string{"dynsec"}, strings.Fields(line)...)...))
	}
	for _, line := range subcommands {
		want, got := ctrl(real.Addr, string(real.AdminPassword), line), ctrl(p.MQTT, mqttPassword, line)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%s (-mosquitto +signalbox):\n%s", line, diff)
		}
	}
	wantSubcommands(t)

	r := root(t, p)
	for kind, want := range map[string][]string{
		"clients": {mqttAdmin, "pump-7", "pump-8"}, "groups": {"pumps"}, "roles": {"admin", "sensor"},
	} {
		if got := r.names(t, kind); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
	for path, want := range map[string]string{
		"/clients?username=pump-7": `[{"username":"pump-7","disabled":false,"roles":[{"rolename":"sensor","priority":5}],"groups":[],"connections":[]}]`,
		"/clients?username=pump-8": `[{"username":"pump-8","clientid":"P8","disabled":false,"roles":[],"groups":[{"groupname":"pumps","priority":4}],"connections":[]}]`,
		"/groups":                  `[{"groupname":"pumps","clients":[{"username":"pump-8"}],"roles":[{"rolename":"sensor","priority":2}]}]`,
		"/acldefault": `{"acls":[[{"acltype":"publishClientSend","allow":false},{"acltype":"publishClientReceive","allow":true},` +
			`{"acltype":"subscribe","allow":true},{"acltype":"unsubscribe","allow":false}]]}`,
	} {
		if got := r.text(t, r.at(path)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", path, got, want)
		}
	}
	mqtttest.Join(t, p.MQTT, "pump-7", "better")
	if mqtttest.Accepts(t, p.MQTT, "pump-7", "secret") {
		t.Error("the old password is still taken")
	}
}

// usage matches the subcommands in the tool's help.
var usage = regexp.MustCompile(`(?m): +([a-z][A-Za-z]+)(?: |$)`)

// wantSubcommands checks that the list above has every subcommand of the installed
// tool.
func wantSubcommands(t *testing.T) {
	t.Helper()
	help := finish(t, tool(t, "mosquitto_ctrl", "127.0.0.1:1", "u", "p", "dynsec", "help"))
	known := usage.FindAllStringSubmatch(help.stdout, -1)
	if len(known) < 28 {
		t.Errorf("found %d subcommands in what the tool says of itself:\n%s", len(known), help.stdout)
	}
	for _, m := range known {
		if !slices.ContainsFunc(subcommands, func(s string) bool { return strings.Fields(s)[0] == m[1] }) {
			t.Errorf("mosquitto_ctrl knows %q, which is not tested", m[1])
		}
	}
}

// TestMosquittoClients uses a role, a group and a client that were created through the
// API: allowed messages are delivered, others are not, and a disabled client is
// disconnected.
func TestMosquittoClients(t *testing.T) {
	t.Parallel()
	p := serve(t, dataDir(t), configured(nil))
	r := root(t, p)
	r.sensor(t, "pump-7", "secret")
	watcher := listen(t, tool(t, "mosquitto_sub", p.MQTT, mqttAdmin, mqttPassword, "-V", "mqttv5", "-q", "1", "-t", "#", "-v"))
	pub := func(args ...string) outcome {
		return finish(t, tool(t, "mosquitto_pub", p.MQTT, "pump-7", "secret", append([]string{"-V", "mqttv5", "-q", "1", "-m", "42"}, args...)...))
	}
	if got := pub("-t", "cmd/one"); !strings.Contains(got.stderr, "Not authorized") {
		t.Errorf("publish to cmd/one: %+v", got)
	}
	if got := pub("-t", "plant/temperature"); got.code != 0 || got.stderr != "" {
		t.Errorf("publish to plant/temperature: %+v", got)
	}
	suite.WaitFor(t, "the message has arrived", func() bool { return len(watcher.messages()) > 0 })
	if got := watcher.messages(); !slices.Equal(got, []string{"plant/temperature 42"}) {
		t.Errorf("arrived: %q", got)
	}

	denied := finish(t, tool(t, "mosquitto_sub", p.MQTT, "pump-7", "secret", "-V", "mqttv5", "-t", "plant/#", "-W", "150"))
	if !strings.Contains(denied.stdout+denied.stderr, "denied") {
		t.Errorf("subscribe to plant/#: %+v", denied)
	}
	pump := listen(t, tool(t, "mosquitto_sub", p.MQTT, "pump-7", "secret", "-q", "1", "-t", "cmd/#", "-v"))
	mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword).Publish("cmd/one", 1, false, "go")
	suite.WaitFor(t, "the command has arrived", func() bool { return slices.Equal(pump.messages(), []string{"cmd/one go"}) })

	r.must(t, "PUT", r.at("/clients/enable"), object{"username": "pump-7", "enable": false}, nil)
	suite.WaitFor(t, "mosquitto_sub is thrown out and stays out", func() bool {
		return strings.Contains(pump.Stdout.String()+pump.Stderr.String(), "Connection Refused: not authorised")
	})
	if got := finish(t, tool(t, "mosquitto_pub", p.MQTT, "pump-7", "secret", "-t", "plant/x", "-m", "1")); got.code == 0 {
		t.Error("a disabled client may publish")
	}
}
