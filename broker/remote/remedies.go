package remote

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"signalbox/broker"
)

// Where the lines of a remedy belong.
const (
	inMosquitto  = "mosquitto.conf"
	brokerShell  = "broker-shell"
	serviceShell = "service-shell"
)

// certificateFiles are where Debian's package suggests to keep them.
const (
	caFile          = "/etc/mosquitto/certs/ca.crt"
	caKeyFile       = "/etc/mosquitto/certs/ca.key"
	certificateFile = "/etc/mosquitto/certs/server.crt"
	keyFile         = "/etc/mosquitto/certs/server.key"
	passwordFile    = "/etc/mosquitto/passwd"
	dynsecFile      = "/var/lib/mosquitto/dynamic-security.json"
)

const restart = "\nsystemctl restart mosquitto"

// remedies returns what may put a cause right, for a broker that is a Mosquitto or unknown.
func (b *Broker) remedies(cause broker.ConnectCause) []broker.Remedy {
	switch cause {
	case broker.CauseCredentialsWanted, broker.CauseCredentialsRefused:
		return credentialRemedies(cause, b.user())
	case broker.CauseNoDynamicSecurity, broker.CauseControlDenied:
		return b.controlRemedies(cause, b.user())
	}
	if list := b.remediesByCause()[cause]; list != nil {
		return list
	}
	return []broker.Remedy{}
}

// user returns the name of the user with which this service connects, or should connect, as a
// word of a shell.
func (b *Broker) user() string { return quoted(cmp.Or(b.username, "signalbox")) }

// remediesByCause returns those that depend on the address only.
func (b *Broker) remediesByCause() map[broker.ConnectCause][]broker.Remedy {
	port := b.endpoint.Port()
	lookUp := broker.Remedy{Remedy: "look-up-name", Where: serviceShell, Text: "Look the name up on the machine of this service.", Lines: "getent hosts -- " + quoted(b.endpoint.Host)}
	addresses := broker.Remedy{Remedy: "show-addresses", Where: brokerShell, Text: "Show the names and addresses of the broker's machine.", Lines: "hostname --fqdn\nhostname --all-ip-addresses"}
	listen := broker.Remedy{Remedy: "listen", Where: inMosquitto, Text: "Let Mosquitto listen on the port, on all addresses.", Lines: b.listener()}
	ports := broker.Remedy{Remedy: "show-listeners", Where: brokerShell, Text: "Show whether the broker runs, and the ports on which it listens.", Lines: "systemctl status mosquitto\nss -ltnp | grep mosquitto"}
	firewall := broker.Remedy{Remedy: "open-firewall", Where: brokerShell, Text: "Open the port where ufw is the firewall.", Lines: "ufw allow " + port + "/tcp"}
	compare := broker.Remedy{Remedy: "compare-fingerprint", Where: brokerShell, Text: "Show the fingerprint of the broker's certificate file, to compare it with the one presented.", Lines: "openssl x509 -noout -fingerprint -sha256 -in " + certificateFile}
	authority := broker.Remedy{Remedy: "show-authority", Where: brokerShell, Text: "Show the authority's certificate, to be given as ca_cert: it stays valid when the broker's certificate is renewed.", Lines: "cat " + caFile}
	dates := broker.Remedy{Remedy: "show-certificate", Where: brokerShell, Text: "Show the dates and uses of the broker's certificate.", Lines: "openssl x509 -noout -dates -ext extendedKeyUsage,basicConstraints -in " + certificateFile}
	reissue := broker.Remedy{Remedy: "reissue-certificate", Where: brokerShell, Text: "Issue a certificate for the name in the address, with the authority's key.", Lines: b.issueServer() + restart}
	secure := broker.Remedy{Remedy: "listen-tls", Where: inMosquitto, Text: "Let Mosquitto speak TLS on the port.", Lines: b.listener()}
	plain := broker.Remedy{Remedy: "listen-plain", Where: inMosquitto, Text: "Let Mosquitto listen without TLS on another port, for the same machine only.", Lines: "listener 1883 127.0.0.1"}
	webSockets := broker.Remedy{Remedy: "listen-websockets", Where: inMosquitto, Text: "Let Mosquitto speak WebSockets on the port.", Lines: b.listener()}
	client := broker.Remedy{Remedy: "issue-client-certificate", Where: brokerShell, Text: "Issue a client certificate for this service, with the authority's key.", Lines: issueClient(cmp.Or(b.username, "signalbox"))}
	without := broker.Remedy{Remedy: "no-client-certificate", Where: inMosquitto, Text: "Let Mosquitto do without client certificates on this listener.", Lines: "listener " + port + "\nrequire_certificate false"}
	trust := broker.Remedy{Remedy: "trust-clients", Where: inMosquitto, Text: "Let Mosquitto trust the authority that signed the client certificate.", Lines: "listener " + port + "\ncafile " + caFile}
	log := broker.Remedy{Remedy: "show-log", Where: brokerShell, Text: "Show what the broker logged about the attempt.", Lines: "journalctl -u mosquitto -n 20"}
	return map[broker.ConnectCause][]broker.Remedy{
		broker.CauseUnknownName: {lookUp, addresses},
		broker.CauseNameServer:  {lookUp},

		broker.CauseRefused:     {listen, ports},
		broker.CauseNoRoute:     {addresses, ports, firewall},
		broker.CauseNoAnswer:    {addresses, ports, firewall},
		broker.CauseUnreachable: {addresses, ports, firewall},

		broker.CauseUntrusted:                {compare, authority},
		broker.CauseOtherCertificate:         {compare},
		broker.CauseWrongName:                {compare, reissue},
		broker.CauseExpired:                  {dates, reissue, compare},
		broker.CauseInvalidCertificate:       {dates, reissue},
		broker.CauseNoTLS:                    {secure},
		broker.CauseNoCommonTLS:              {secure, log},
		broker.CauseSilentTLS:                {secure, ports},
		broker.CauseClientCertificateWanted:  {client, without},
		broker.CauseClientCertificateRefused: {client, trust},

		broker.CauseNoWebSocket:     {webSockets},
		broker.CauseSilentWebSocket: {webSockets, ports},

		broker.CauseTLSWanted:         {plain},
		broker.CauseHTTP:              {listen, ports},
		broker.CauseNotMQTT:           {listen, ports},
		broker.CauseSilent:            {listen, ports},
		broker.CauseClosed:            {listen, log},
		broker.CauseProtocolVersion:   {log},
		broker.CauseClientID:          {log},
		broker.CauseServerUnavailable: {log},
		broker.CauseLost:              {log},
	}
}

// credentialRemedies are about the user with which this service connects. Mosquitto's programs
// take a name that begins with a dash as a name, after the subcommand or the file; they would
// take "--" as one, too.
func credentialRemedies(cause broker.ConnectCause, user string) []broker.Remedy {
	create := broker.Remedy{Remedy: "create-user", Where: brokerShell, Text: "With dynamic security: create a user for this service that may manage the broker. The password is asked for.",
		Lines: "mosquitto_ctrl -u admin dynsec createClient " + user + "\nmosquitto_ctrl -u admin dynsec addClientRole " + user + " admin"}
	if cause == broker.CauseCredentialsRefused {
		create = broker.Remedy{Remedy: "set-password", Where: brokerShell, Text: "With dynamic security: show the user, enable it and set its password, which is asked for.",
			Lines: "mosquitto_ctrl -u admin dynsec getClient " + user + "\nmosquitto_ctrl -u admin dynsec enableClient " + user + "\nmosquitto_ctrl -u admin dynsec setClientPassword " + user}
	}
	return []broker.Remedy{create, {Remedy: "add-to-password-file", Where: brokerShell, Text: "With a password_file: add the user, or set its password, which is asked for.",
		Lines: "mosquitto_passwd " + passwordFile + " " + user + "\nsystemctl reload mosquitto"}}
}

// controlRemedies are about dynamic security, which only Mosquitto has.
func (b *Broker) controlRemedies(cause broker.ConnectCause, user string) []broker.Remedy {
	if v := b.sys.version(); v != "" && !isMosquitto(v) {
		return []broker.Remedy{}
	}
	allow := "mosquitto_ctrl -u admin dynsec createRole signalbox"
	for _, acl := range []string{"publishClientSend", "publishClientReceive", "subscribePattern"} {
		allow += "\nmosquitto_ctrl -u admin dynsec addRoleACL signalbox " + acl + " '$CONTROL/#' allow"
	}
	list := []broker.Remedy{{Remedy: "allow-control", Where: brokerShell, Text: "Where the plugin is loaded: let the user manage dynamic security.",
		Lines: allow + "\nmosquitto_ctrl -u admin dynsec addClientRole " + user + " signalbox"}}
	if cause == broker.CauseControlDenied {
		return list
	}
	return append([]broker.Remedy{
		{Remedy: "init-dynamic-security", Where: brokerShell, Text: "Create the file of dynamic security with its administrator, whose password is asked for.",
			Lines: "mosquitto_ctrl dynsec init " + dynsecFile + " admin\nchown mosquitto: " + dynsecFile},
		{Remedy: "load-dynamic-security", Where: inMosquitto, Text: "Load the plugin, with its path on that machine, and restart Mosquitto.", Lines: strings.TrimPrefix(dynsecLines, "\n")},
	}, list...)
}

// listener returns the lines of mosquitto.conf for the endpoint.
func (b *Broker) listener() string {
	lines := "listener " + b.endpoint.Port()
	if b.endpoint.UsesWebSocket() {
		lines += "\nprotocol websockets"
	}
	if b.endpoint.UsesTLS() {
		lines += "\ncertfile " + certificateFile + "\nkeyfile " + keyFile
	}
	return lines
}

// issueServer returns the commands that issue a certificate for the endpoint's host.
func (b *Broker) issueServer() string {
	kind := "DNS:"
	if _, err := netip.ParseAddr(b.endpoint.Host); err == nil {
		kind = "IP:"
	}
	return fmt.Sprintf("openssl req -new -key %s -subj /CN=mosquitto -addext %s -out server.csr\n"+
		"openssl x509 -req -in server.csr -CA %s -CAkey %s -copy_extensions copy -days 365 -out %s",
		keyFile, quoted("subjectAltName="+kind+b.endpoint.Host), caFile, caKeyFile, certificateFile)
}

// issueClient returns the commands that issue a client certificate for a user.
func issueClient(username string) string {
	subject := "/CN=" + strings.NewReplacer(`\`, `\\`, "/", `\/`, "+", `\+`).Replace(username)
	return "openssl req -new -newkey rsa:2048 -nodes -keyout client.key -subj " + quoted(subject) + " -out client.csr\n" +
		"openssl x509 -req -in client.csr -CA " + caFile + " -CAkey " + caKeyFile + " -days 365 -out client.crt"
}

// quoted returns a text as one word of a shell. Characters that cannot be seen, which a name
// from elsewhere might have, are replaced: lines are copied by what they look like.
func quoted(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.:/=@%+-", r))
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
