package console_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// trialPage is the form of a new connection, with the outcome of its test.
type trialPage struct {
	*browsertest.Page
	t *testing.T
}

// press presses a button of the form and waits until the outcome is another one.
func (p *trialPage) press(button string) {
	p.t.Helper()
	p.Evaluate(`document.querySelector("#trial").dataset.old = "true"`, nil)
	p.Click(button)
	p.WaitFor(`document.querySelector("#trial:not([data-old]) .message")`)
}

// lines returns the texts of the elements that a selector selects.
func (p *trialPage) lines(selector string) (all []string) {
	p.t.Helper()
	p.Evaluate(fmt.Sprintf("[...document.querySelectorAll(%q)].map(e => e.textContent.trim())", selector), &all)
	return all
}

// wantSteps fails the test unless one step ended in a state, those before it are good and those
// after it were not reached. "" is for all.
func (p *trialPage) wantSteps(step, state string) {
	p.t.Helper()
	var got []string
	p.Evaluate(`[...document.querySelectorAll("#trial .steps .state")].map(e => [...e.classList].filter(c => c !== "state") + " " + e.textContent.trim())`, &got)
	want := slices.Clone(got)
	ended := false
	for i, line := range want {
		_, name, _ := strings.Cut(line, " ")
		switch {
		case ended:
			want[i] = "quiet " + name
		case name == step:
			ended = true
			want[i] = state + " " + name
		default:
			want[i] = "good " + name
		}
	}
	if len(got) < 3 || !slices.Equal(got, want) || ended != (step != "") {
		p.t.Errorf("the steps are %q, want %q", got, want)
	}
}

// failedTrial is a connection whose test fails, or finds that access control cannot be managed.
type failedTrial struct {
	url, username, password string
	authority               string // PEM, to be trusted
	cause, step, state      string // as the page names them
	remedies                []string
	certificates            int
	pins                    bool   // the certificate can be pinned
	outdated                string // the warning that its dates are not checked then
	missing                 string // why the broker lacks access control
}

// Lines of remedies that do not depend on the connection.
const (
	showPorts    = "show-listeners: systemctl status mosquitto\nss -ltnp | grep mosquitto"
	fingerprints = "compare-fingerprint: openssl x509 -noout -fingerprint -sha256 -in /etc/mosquitto/certs/server.crt"
	reissue      = "reissue-certificate: openssl req -new -key /etc/mosquitto/certs/server.key -subj /CN=mosquitto -addext subjectAltName=IP:127.0.0.1 -out server.csr\n" +
		"openssl x509 -req -in server.csr -CA /etc/mosquitto/certs/ca.crt -CAkey /etc/mosquitto/certs/ca.key -copy_extensions copy -days 365 -out /etc/mosquitto/certs/server.crt\n" +
		"systemctl restart mosquitto"
)

// try fills in the form, tests the connection and compares the outcome.
func (p *trialPage) try(f failedTrial) {
	p.t.Helper()
	p.fill(f)
	p.press(`button[value="test"]`)
	if got := p.Text("#trial .message." + f.state); !strings.Contains(got, f.cause) {
		p.t.Errorf("%s: the page does not name the cause %q: %s", f.url, f.cause, got)
	}
	p.wantSteps(f.step, f.state)
	var remedies []string
	p.Evaluate(`[...document.querySelectorAll("#trial pre[id]")].map(e => e.id.slice("lines-".length) + ": " + e.textContent)`, &remedies)
	if !slices.Equal(remedies, f.remedies) {
		p.t.Errorf("%s: the remedies are %q, want %q", f.url, remedies, f.remedies)
	}
	if n := p.Count("#trial h3"); n != f.certificates {
		p.t.Errorf("%s: the page shows %d certificates, want %d", f.url, n, f.certificates)
	}
	if n := p.Count(`button[value="pin"]`); n != 0 != f.pins {
		p.t.Errorf("%s: %d certificates can be pinned", f.url, n)
	}
	p.wantOutdated(f.outdated)
	if got := p.Text("#trial .features"); !strings.Contains(got, f.missing) {
		p.t.Errorf("%s: the page does not name why access control is missing, %q: %s", f.url, f.missing, got)
	}
}

func (p *trialPage) fill(f failedTrial) {
	p.Fill(`[name="url"]`, f.url)
	p.Fill(`[name="username"]`, f.username)
	p.Fill(`[name="password"]`, f.password)
	p.Evaluate(fmt.Sprintf(`document.querySelector('[name="ca_cert"]').value = %q`, f.authority), nil) // as if it was pasted
}

// wantOutdated fails the test unless the page warns that the dates of a certificate are not checked if
// it is pinned, or has no warning if text is "".
func (p *trialPage) wantOutdated(text string) {
	p.t.Helper()
	if got := strings.Join(p.lines("#trial p.message.warn"), "; "); !strings.Contains(got, text) || text == "" && got != "" {
		p.t.Errorf("the warning about the dates is %q, want %q", got, text)
	}
}

// pin pins the certificate with one click, with which the connection works, and removes the pin.
func (p *trialPage) pin(outdated string) {
	p.t.Helper()
	p.press(`button[value="pin"]`)
	if p.Count("#trial .message.good") != 2 || p.Count(`button[value="pin"]`) > 0 {
		p.t.Errorf("with the pinned certificate: %s", p.Text("#trial"))
	}
	p.wantSteps("", "")
	p.wantOutdated(outdated)
	p.Fill(`[name="server_fingerprint"]`, "")
}

// tlsListener returns the lines of a listener of Mosquitto with a certificate, and its URL.
func tlsListener(t *testing.T, certificate brokertest.KeyPair) (lines []string, url string) {
	t.Helper()
	dir, address := t.TempDir(), brokertest.FreePort(t, "127.0.0.1")
	return []string{"listener " + portOf(address) + " 127.0.0.1", "certfile " + write(t, filepath.Join(dir, "cert.pem"), certificate.Cert),
		"keyfile " + write(t, filepath.Join(dir, "key.pem"), certificate.Key)}, "mqtts://" + address
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// TestConnect_failures tests connections to a Mosquitto that fail in every way. The page names the
// cause and the lines that put it right, of which those about users are then carried out.
func TestConnect_failures(t *testing.T) {
	t.Parallel()
	ca := brokertest.NewCA(t)
	here := []string{"127.0.0.1"}
	unknown := ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: here})
	unknown.Cert = append(unknown.Cert, ca.PEM...)
	unknownLines, unknownURL := tlsListener(t, unknown)
	otherLines, otherURL := tlsListener(t, ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: []string{"broker.example"}}))
	expiredLines, expiredURL := tlsListener(t, ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: here, Expired: true}))
	notYetLines, notYetURL := tlsListener(t, ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: here, NotYet: true}))
	server := brokertest.Mosquitto(t, brokertest.WithConfig(slices.Concat(unknownLines, otherLines, expiredLines, notYetLines)...))
	bare := brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	api := apitest.New(t)
	s := newSession(t, api.URL)
	p := &trialPage{browsertest.Open(t, api.URL+"/ui/p/"+api.Project+"/brokers/new", browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value)), t}
	p.Fill(`[name="name"]`, "hall 3")
	p.Click("main details > summary")

	p.tryPorts()
	p.tryCertificates(server, string(ca.PEM), unknownURL, otherURL, expiredURL, notYetURL)
	at := addMosquitto(t, api, server)
	api.Root.Post(api.BrokerAt(at, "/clients"), object{"username": "reader", "password": secret}).Want(204)
	p.tryRights(server, bare)
	s.wantLines(api.URL + "/ui/p/" + api.Project + "/b/" + addMosquitto(t, api, bare) + "/overview")
}

// answering accepts connections, and sends each a text.
func answering(t *testing.T, text string) (address string) {
	t.Helper()
	return suite.Listen(t, func(conn net.Conn) {
		io.WriteString(conn, text) //nolint:errcheck // the other side sees what arrives
		io.Copy(io.Discard, conn)  //nolint:errcheck // until the other side closes
	})
}

// tryPorts tries addresses at which there is no broker.
func (p *trialPage) tryPorts() {
	p.t.Helper()
	closed := brokertest.FreePort(p.t, "127.0.0.1")
	ssh, web := answering(p.t, "SSH-2.0-OpenSSH_9.2\r\n"), answering(p.t, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
	p.try(failedTrial{url: "mqtt://broker.invalid", cause: "The name of the host is unknown.", step: "Name", state: "bad",
		remedies: []string{"look-up-name: getent hosts -- broker.invalid", "show-addresses: hostname --fqdn\nhostname --all-ip-addresses"}})
	p.try(failedTrial{url: "mqtt://" + closed, cause: "Nothing listens on this port.", step: "Port", state: "bad",
		remedies: []string{"listen: listener " + portOf(closed), showPorts}})
	p.try(failedTrial{url: "mqtt://" + ssh, cause: "This port does not speak MQTT.", step: "Login", state: "bad",
		remedies: []string{"listen: listener " + portOf(ssh), showPorts}})
	p.try(failedTrial{url: "mqtt://" + web, cause: "This port speaks HTTP.", step: "Login", state: "bad",
		remedies: []string{"listen: listener " + portOf(web), showPorts}})
}

// tryCertificates tries listeners whose certificate is of an unknown authority, for another name
// expired and not valid yet. Each can be pinned.
func (p *trialPage) tryCertificates(server *brokertest.Server, authority, unknown, other, expired, notYet string) {
	p.t.Helper()
	f := failedTrial{url: unknown, username: server.AdminUsername, password: string(server.AdminPassword), step: "TLS", state: "bad",
		cause: "The certificate of the broker is not trusted.", certificates: 2, pins: true,
		remedies: []string{fingerprints, "show-authority: cat /etc/mosquitto/certs/ca.crt"}}
	p.try(f)
	p.pin("")
	f.url, f.authority, f.cause, f.certificates, f.remedies = other, authority, "The certificate of the broker is for another name.", 1, []string{fingerprints, reissue}
	p.try(f)
	p.pin("")
	f.cause = "The certificate of the broker is out of date."
	f.remedies = []string{"show-certificate: openssl x509 -noout -dates -ext extendedKeyUsage,basicConstraints -in /etc/mosquitto/certs/server.crt", reissue, fingerprints}
	f.url, f.outdated = expired, "certificate of the broker has expired"
	p.try(f)
	p.pin(f.outdated)
	f.url, f.outdated = notYet, "certificate of the broker is not valid yet"
	p.try(f)
	p.pin(f.outdated)
}

// tryRights tries a user whose password is wrong, and who then may not manage access control, puts
// both right, and tries a broker without access control.
func (p *trialPage) tryRights(server, bare *brokertest.Server) {
	p.t.Helper()
	const ctrl, control = "mosquitto_ctrl -u admin dynsec ", "Access control ($CONTROL)"
	allow := "allow-control: " + ctrl + "createRole signalbox\n"
	for _, acl := range []string{"publishClientSend", "publishClientReceive", "subscribePattern"} {
		allow += ctrl + "addRoleACL signalbox " + acl + " '$CONTROL/#' allow\n"
	}
	allow += ctrl + "addClientRole "
	reader := failedTrial{url: server.URL, username: "reader", password: "quite wrong", cause: "The broker refuses the username or the password.", step: "Login", state: "bad",
		remedies: []string{"set-password: " + ctrl + "getClient reader\n" + ctrl + "enableClient reader\n" + ctrl + "setClientPassword reader",
			"add-to-password-file: mosquitto_passwd /etc/mosquitto/passwd reader\nsystemctl reload mosquitto"}}
	p.try(reader)
	p.carryOut(server, "set-password", reader.password)
	reader.cause, reader.step, reader.state, reader.remedies = "The user may not use $CONTROL", control, "warn", []string{allow + "reader signalbox"}
	reader.missing = `user "reader" may not subscribe to $CONTROL/dynamic-security/v1/response`
	p.try(reader)
	p.wantLimited()
	p.carryOut(server, "allow-control", "")
	p.press(`button[value="test"]`)
	p.wantSteps("", "")
	const load = "per_listener_settings false\nplugin /usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so\nplugin_opt_config_file /var/lib/mosquitto/dynamic-security.json"
	p.try(failedTrial{url: bare.URL, cause: "The broker does not answer on $CONTROL", step: control, state: "warn", missing: "it has no dynamic security plugin",
		remedies: []string{"init-dynamic-security: mosquitto_ctrl dynsec init /var/lib/mosquitto/dynamic-security.json admin\nchown mosquitto: /var/lib/mosquitto/dynamic-security.json",
			"load-dynamic-security: " + load, allow + "signalbox signalbox"}})
	p.wantLimited()
	if got := p.lines("#trial .features pre"); !slices.Equal(got, []string{load, load}) {
		p.t.Errorf("the lines for the missing feature: %q", got)
	}
	p.CheckAccessibility()
}

// wantLimited fails the test unless the page names what works and what does not, and nothing looks as if
// all was well.
func (p *trialPage) wantLimited() {
	p.t.Helper()
	const want = "The connection and the login work, but access control cannot be managed."
	if got := p.Text("#trial .message"); !strings.Contains(got, want) || p.Count("#trial .message.good") > 0 {
		p.t.Errorf("a broker whose access control cannot be managed: %s, want %s", p.Text("#trial"), want)
	}
}

// wantLines fails the test for the pages of a broker that show several lines as one.
func (s *session) wantLines(overview string) {
	s.t.Helper()
	base, _, _ := strings.Cut(overview, "/overview")
	visited := 0
	for _, link := range s.links(s.get(overview)) {
		if !strings.HasPrefix(link.String(), base) {
			continue
		}
		visited++
		text := s.get(link.String()).text
		if i := strings.Index(text, "␊"); i >= 0 {
			s.t.Errorf("%s shows lines as one: %s", link, text[max(0, i-200):i])
		}
	}
	if visited < 10 {
		s.t.Errorf("visited %d pages of the broker", visited)
	}
}

// carryOut runs the lines of a remedy with Mosquitto's own programs, where the administrator's
// password need not be typed; another one is typed twice.
func (p *trialPage) carryOut(server *brokertest.Server, remedy, password string) {
	p.t.Helper()
	var lines string
	p.Evaluate(fmt.Sprintf(`document.querySelector("#lines-%s").textContent`, remedy), &lines)
	const program = "mosquitto_ctrl -u admin "
	here := strings.ReplaceAll(lines, program, "mosquitto_ctrl -h 127.0.0.1 -p "+portOf(server.Addr)+" -u admin -P "+string(server.AdminPassword)+" ")
	cmd := exec.CommandContext(p.t.Context(), "/bin/sh", "-ec", here)
	cmd.Stdin = strings.NewReader(strings.Repeat(password+"\n", 2))
	if output, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(output), "rror:") {
		p.t.Fatalf("%s: %v, %s", lines, err, output)
	}
}
