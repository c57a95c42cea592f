package systemtest

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// stateBefore and stateAfter are access control of a broker. Between them, roles change
// together with the groups and clients that have them, and some of them deny something.
const (
	stateBefore = `
        acldefault: [{acltype: publishClientSend, allow: true}, {acltype: subscribe, allow: false}]
        roles:
          - {rolename: r1, acls: [{acltype: publishClientSend, topic: a/#, allow: true}]}
          - {rolename: r2, acls: [{acltype: publishClientSend, topic: b, allow: false}]}
          - {rolename: old, acls: [{acltype: subscribePattern, topic: o/#, allow: true}]}
        groups:
          - {groupname: all, roles: [r1, r2]}
          - {groupname: some, roles: [r2]}
          - {groupname: last, roles: [old]}
        clients:
          - {username: c1, roles: [old], groups: [all, last]}
          - {username: c2, disabled: false, groups: [some]}
          - {username: c3, password: {env: SECRET}}
`
	stateAfter = `
        acldefault: [{acltype: publishClientSend, allow: false}, {acltype: subscribe, allow: true}]
        roles:
          - {rolename: r1, acls: [{acltype: publishClientSend, topic: a/b, allow: true}, {acltype: subscribePattern, topic: a/#, priority: 7, allow: false}]}
          - {rolename: r2, acls: []}
          - {rolename: new, acls: [{acltype: publishClientReceive, topic: x/#, allow: false}]}
        groups:
          - {groupname: all, roles: [r2, {rolename: new, priority: 3}]}
          - {groupname: some, roles: []}
        clients:
          - {username: c1, roles: [], groups: [{groupname: some, priority: 9}]}
          - {username: c2, disabled: true, groups: [some, all]}
          - {username: c4, disabled: true, groups: [all], password: {env: SECRET}}
`
)

// applied is a service with one broker of its own and two Mosquittos, and a proxy that kills
// "signalbox apply" at a change.
type applied struct {
	env      []string // of commands
	dir      string
	api      string // the service without the proxy
	lines    [2]*brokertest.Server
	proxy    *httptest.Server
	upstream *httputil.ReverseProxy

	mu      sync.Mutex // guards everything below
	changes int        // that have arrived
	kill    int        // the number of the change at which the command is killed, 0 for none
	after   bool       // the change is made first
	command *exec.Cmd
}

func newApplied(t *testing.T, s settings) *applied {
	t.Helper()
	p := serve(t, dataDir(t), configured(s))
	target, err := url.Parse(p.API)
	if err != nil {
		t.Fatal(err)
	}
	a := &applied{dir: t.TempDir(), api: p.API, lines: [2]*brokertest.Server{brokertest.Mosquitto(t), brokertest.Mosquitto(t)}}
	a.upstream = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ErrorLog: log.New(io.Discard, "", 0)}
	a.proxy = httptest.NewServer(http.HandlerFunc(a.forward))
	t.Cleanup(a.proxy.Close)
	a.env = []string{"HOME=" + a.dir, "SIGNALBOX_URL=" + a.proxy.URL, "SIGNALBOX_TOKEN=" + root(t, p).token, "SECRET=drip",
		"LINE1=" + string(a.lines[0].AdminPassword), "LINE2=" + string(a.lines[1].AdminPassword)}
	return a
}

// forward passes a request on, unless the command is killed before it, and its response.
func (a *applied) forward(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	kills := false
	if r.Method != http.MethodGet {
		a.changes++
		kills = a.changes == a.kill
	}
	a.mu.Unlock()
	if !kills {
		a.upstream.ServeHTTP(w, r)
		return
	}
	if a.after {
		a.upstream.ServeHTTP(httptest.NewRecorder(), r)
	}
	a.end()
	panic(http.ErrAbortHandler) // the command has no response
}

func (a *applied) end() { a.command.Process.Kill() } //nolint:errcheck // it may have ended

// file writes a file with a state of all brokers. The second Mosquitto is added with the
// state after only.
func (a *applied) file(t *testing.T, name, state string, second bool) string {
	t.Helper()
	text := fmt.Sprintf("version: 1\nprojects:\n  - name: default\n    brokers:\n      - name: embedded%s        streams: [{streamname: s, sourcetopic: a/#, textname: %s}]\n"+
		"      - name: line-1\n        url: %s\n        username: admin\n        password: {env: LINE1}%s  - name: hall\n    brokers:", state, name, a.lines[0].URL, state)
	if second {
		text += fmt.Sprintf("\n      - name: line-2\n        url: %s\n        username: admin\n        password: {env: LINE2}%s", a.lines[1].URL, state)
	} else {
		text += " []\n"
	}
	path := filepath.Join(a.dir, name+".yaml")
	write(t, path, text)
	return path
}

// run runs a command, which is killed at a change; 0 for never. It returns the changes.
func (a *applied) run(t *testing.T, kill int, after bool, args ...string) (got outcome, changes int) {
	t.Helper()
	cmd := prepare(a.env, append(args, "--prune", "--state", filepath.Join(a.dir, "created.json"))...)
	a.mu.Lock()
	a.changes, a.kill, a.after, a.command = 0, kill, after, cmd
	var err error
	if kill > 0 {
		err = cmd.Start() // before the lock is released, because forward uses its process
	}
	a.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if kill > 0 {
		if err := cmd.Wait(); err == nil {
			t.Fatalf("%v ended before change %d", args, kill)
		}
	} else if got = finish(t, cmd); got.code != 0 {
		t.Fatalf("%v: %+v", args, got)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return got, a.changes
}

// TestCampaignApplyIsKilled applies one file to the embedded broker and two Mosquittos, kills the
// command at 50 places, and repeats it: the end is the same, and nothing is left to change.
func TestCampaignApplyIsKilled(t *testing.T) {
	t.Parallel()
	a := newApplied(t, settings{"LOG_LEVEL": "warn"})
	before, after := a.file(t, "before", stateBefore, false), a.file(t, "after", stateAfter, true)
	export := func() string {
		out, err := prepare(a.env, "export").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	a.run(t, 0, false, "apply", "-f", after, "--yes") // pruning a broker leaves what is in it
	a.run(t, 0, false, "apply", "-f", before, "--yes")
	_, total := a.run(t, 0, false, "apply", "-f", after, "--yes")
	want := export()
	const places = 50
	if total < places/2 || !strings.Contains(want, "line-2") {
		t.Fatalf("%d changes, too few to kill the command at %d places:\n%s", total, places, want)
	}
	for place := range places {
		a.run(t, 0, false, "apply", "-f", before, "--yes")
		number, made := 1+place/2*total/(places/2), place%2 == 1
		a.run(t, number, made, "apply", "-f", after, "--yes")
		a.run(t, 0, false, "apply", "-f", after, "--yes")
		if got, _ := a.run(t, 0, false, "diff", "-f", after); !strings.HasSuffix(got.stdout, "there is nothing to change\n") {
			t.Fatalf("change %d of %d: left to change: %s", number, total, got.stdout)
		}
		if got := export(); got != want {
			t.Fatalf("change %d of %d: the end is\n%s\nwant\n%s", number, total, got, want)
		}
	}
	t.Logf("killed at %d of %d changes, before and after each", places/2, total)
}

// TestCampaignApplyManyClients applies a file with clients with passwords to the embedded
// broker, and to a Mosquitto: there it takes at most twice the time of the bare commands. The
// time that Mosquitto itself takes for a command grows with the number of clients, because it
// writes its whole file: fewer clients are the harder case.
func TestCampaignApplyManyClients(t *testing.T) {
	n := suite.FromEnvironment(t, "SIGNALBOX_TEST_CLIENTS", 1000)
	a := newApplied(t, settings{"LOG_LEVEL": "warn", "BROKER_PASSWORD_ITERATIONS": "10000"})
	a.env = append(a.env, "SIGNALBOX_URL="+a.api)
	apply := func(name, connection, prefix string) time.Duration {
		t.Helper()
		file := filepath.Join(a.dir, name+".yaml")
		head := "version: 1\nprojects:\n  - name: default\n    brokers:\n      - name: " + name + "\n" + connection
		write(t, file, head+"        roles: [{rolename: client}]\n")
		a.run(t, 0, false, "apply", "-f", file, "--yes")
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, "          - {username: %s%d, password: {env: SECRET}, roles: [client]}\n", prefix, i)
		}
		write(t, file, head+"        clients:\n"+list.String())
		began := time.Now()
		if out, err := prepare(a.env, "apply", "-f", file, "--yes").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return time.Since(began)
	}
	embedded := apply("embedded", "", "c")
	// The two are compared side by side, and again where something else may have slowed one of them down.
	for attempt, atMost := 1, 3; ; attempt++ {
		prefix := fmt.Sprintf("c%d-", attempt)
		bare := createClients(t, a.lines[0], prefix, n)
		line := apply("line", "        url: "+a.lines[1].URL+"\n        username: admin\n        password: {env: LINE2}\n", prefix)
		t.Logf("%d clients: %v at the embedded broker; %v at Mosquitto, where the commands alone take %v", n,
			embedded.Round(time.Millisecond), line.Round(time.Millisecond), bare.Round(time.Millisecond))
		if line <= 2*bare {
			break
		}
		if attempt == atMost {
			t.Fatal("apply takes more than twice the time of the commands")
		}
	}
}

// createClients creates clients with bare commands, of which some wait for a response at a time.
func createClients(t *testing.T, s *brokertest.Server, prefix string, n int) time.Duration {
	t.Helper()
	const waiting, control = 8, "$CONTROL/dynamic-security/v1"
	p := mqtttest.Join(t, s.Addr, s.AdminUsername, string(s.AdminPassword))
	defer p.Disconnect(0)
	responses := make(chan string, waiting)
	mqtttest.Acknowledged(t, p.Subscribe(control+"/response", 1, func(_ mqtt.Client, m mqtt.Message) { responses <- string(m.Payload()) }))
	send := func(command string) {
		mqtttest.Acknowledged(t, p.Publish(control, 1, false, `{"commands":[`+command+`]}`))
	}
	receive := func() {
		if r := <-responses; strings.Contains(r, "error") {
			t.Fatal(r)
		}
	}
	role := prefix + "role"
	send(fmt.Sprintf(`{"command":"createRole","rolename":%q}`, role))
	receive()
	began := time.Now()
	for i := range n {
		if i >= waiting {
			receive()
		}
		send(fmt.Sprintf(`{"command":"createClient","username":"%s%d","password":"drip","roles":[{"rolename":%q}]}`, prefix, i, role))
	}
	for range min(n, waiting) {
		receive()
	}
	return time.Since(began)
}
