package brokertest

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker"
)

type options struct {
	anonymous  bool
	noPlugin   bool
	initiated  bool
	perListen  bool
	passwords  bool
	acl        string
	ws         bool
	tls        bool
	cert       *KeyPair
	clientCert bool
	dynsec     []byte
	extra      []string
}

// Option changes the Mosquitto that is started.
type Option func(*options)

// AllowAnonymous accepts clients without a username.
func AllowAnonymous() Option { return func(o *options) { o.anonymous = true } }

// WithoutPlugin omits dynamic security: a plain Mosquitto that accepts every client and does not
// respond on $CONTROL.
func WithoutPlugin() Option {
	return func(o *options) { o.noPlugin, o.anonymous = true, true }
}

// InitiatedDynsec starts with the configuration of "mosquitto_ctrl dynsec init", whose admin has
// fewer rights than that of other servers.
func InitiatedDynsec() Option { return func(o *options) { o.initiated = true } }

// WithPasswordFile omits dynamic security: clients are those of a password_file, which contains
// only the admin, and an acl_file with the given content defines their rights.
func WithPasswordFile(acl string) Option {
	return func(o *options) { o.noPlugin, o.passwords, o.acl = true, true, acl }
}

// PerListener configures security for each listener (per_listener_settings true).
func PerListener() Option { return func(o *options) { o.perListen = true } }

// WithWebSockets adds a listener for MQTT over WebSockets, and one with TLS if the server has
// TLS.
func WithWebSockets() Option { return func(o *options) { o.ws = true } }

// WithTLS adds a TLS listener for 127.0.0.1 and localhost.
func WithTLS() Option { return func(o *options) { o.tls = true } }

// WithCertificate adds a TLS listener with the given certificate.
func WithCertificate(pair KeyPair) Option {
	return func(o *options) { o.tls, o.cert = true, &pair }
}

// WithClientCertificates adds a TLS listener that requires a client certificate of the server's
// CA.
func WithClientCertificates() Option {
	return func(o *options) { o.tls, o.clientCert = true, true }
}

// WithDynsec starts with the given dynamic-security.json. The admin of Server can log in only if
// the document contains it.
func WithDynsec(document []byte) Option {
	return func(o *options) { o.dynsec = document }
}

// WithConfig adds lines to mosquitto.conf.
func WithConfig(lines ...string) Option {
	return func(o *options) { o.extra = append(o.extra, lines...) }
}

// prepare writes all files except mosquitto.conf.
func (s *Server) prepare(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	s.ConfigPath = filepath.Join(dir, "mosquitto.conf")
	if !s.options.noPlugin {
		s.DynsecPath = filepath.Join(dir, "dynamic-security.json")
		s.writeDynsec(t)
	}
	if s.options.passwords {
		write(t, filepath.Join(dir, "acl"), []byte(s.options.acl))
		run(t, "mosquitto_passwd", "-b", "-c", filepath.Join(dir, "passwd"), s.AdminUsername, string(s.AdminPassword))
	}
	if s.options.tls {
		s.writeCertificates(t, dir)
	}
}

func (s *Server) writeDynsec(t testing.TB) {
	t.Helper()
	switch {
	case s.options.initiated:
		run(t, "mosquitto_ctrl", "dynsec", "init", s.DynsecPath, s.AdminUsername, string(s.AdminPassword))
		return
	case s.options.dynsec == nil:
		s.options.dynsec = adminDocument(t, s.AdminUsername, string(s.AdminPassword))
	}
	write(t, s.DynsecPath, s.options.dynsec)
}

// run executes one of Mosquitto's tools.
func run(t testing.TB, tool string, args ...string) {
	t.Helper()
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, out)
	}
}

func (s *Server) writeCertificates(t testing.TB, dir string) {
	t.Helper()
	s.CA = NewCA(t)
	if s.options.cert == nil {
		pair := s.CA.Issue(t, CertOptions{Subject: "localhost", Names: []string{"localhost", "127.0.0.1"}})
		s.options.cert = &pair
	}
	write(t, filepath.Join(dir, "ca.pem"), s.CA.PEM)
	write(t, filepath.Join(dir, "cert.pem"), s.options.cert.Cert)
	write(t, filepath.Join(dir, "key.pem"), s.options.cert.Key)
}

// configure writes mosquitto.conf, with ports that are free now.
func (s *Server) configure(t testing.TB) {
	t.Helper()
	conf := []string{
		fmt.Sprintf("per_listener_settings %t", s.options.perListen),
		"persistence false",
		"sys_interval 1",
		"set_tcp_nodelay true", // otherwise a response waits 40 ms for the TCP acknowledgement of the PUBACK before it
		"log_dest stderr",
		"log_type error",
		"log_type warning",
		"log_type notice",
		"log_type information",
		"connection_messages true",
	}
	if os.Geteuid() == 0 {
		conf = append(conf, "user root") // otherwise it drops root's rights and cannot write here
	}
	if !s.options.perListen {
		conf = append(conf, s.security()...)
	}
	conf = append(conf, s.listeners(t)...)
	conf = append(conf, s.options.extra...)
	write(t, s.ConfigPath, []byte(strings.Join(conf, "\n")+"\n"))
}

// security returns the configuration of authentication and authorization.
func (s *Server) security() []string {
	lines := []string{fmt.Sprintf("allow_anonymous %t", s.options.anonymous)}
	if s.plugin != "" {
		lines = append(lines, "plugin "+s.plugin, "plugin_opt_config_file "+s.DynsecPath)
	}
	if dir := filepath.Dir(s.ConfigPath); s.options.passwords {
		lines = append(lines, "password_file "+filepath.Join(dir, "passwd"), "acl_file "+filepath.Join(dir, "acl"))
	}
	return lines
}

// listeners chooses a port for each listener and configures it.
func (s *Server) listeners(t testing.TB) (conf []string) {
	t.Helper()
	add := func(scheme string, lines ...string) (addr, url string) {
		addr = FreePort(t, "127.0.0.1")
		_, port, _ := net.SplitHostPort(addr) // FreePort returns valid addresses
		conf = append(append(conf, "listener "+port+" 127.0.0.1"), lines...)
		if s.options.perListen {
			conf = append(conf, s.security()...)
		}
		return addr, scheme + "://" + addr
	}
	s.Addr, s.URL = add("mqtt")
	if s.options.tls {
		_, s.TLSURL = add("mqtts", s.tlsLines()...)
	}
	if s.options.ws {
		_, s.WSURL = add("ws", "protocol websockets")
	}
	if s.options.ws && s.options.tls {
		_, s.WSSURL = add("wss", append(s.tlsLines(), "protocol websockets")...)
	}
	return conf
}

func (s *Server) tlsLines() []string {
	dir := filepath.Dir(s.ConfigPath)
	lines := []string{
		"certfile " + filepath.Join(dir, "cert.pem"),
		"keyfile " + filepath.Join(dir, "key.pem"),
	}
	if s.options.clientCert {
		lines = append(lines, "cafile "+filepath.Join(dir, "ca.pem"), "require_certificate true")
	}
	return lines
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatalf("prepare mosquitto: %v", err)
	}
}

// Document is a dynamic-security.json in the format of Mosquitto 2.0, which later versions read
// too.
type Document struct {
	DefaultACLAccess map[string]bool  `json:"defaultACLAccess"`
	Clients          []DocumentClient `json:"clients"`
	Groups           []DocumentGroup  `json:"groups"`
	Roles            []broker.Role    `json:"roles"`
	AnonymousGroup   string           `json:"anonymousGroup,omitempty"`
}

// DocumentClient is a client of a Document. Password and Salt are base64.
type DocumentClient struct {
	Username   string           `json:"username"`
	ClientID   string           `json:"clientid,omitempty"`
	Roles      []broker.RoleRef `json:"roles"`
	Password   string           `json:"password,omitempty"`
	Salt       string           `json:"salt,omitempty"`
	Iterations int              `json:"iterations,omitempty"`
}

// DocumentGroup is a group of a Document.
type DocumentGroup struct {
	GroupName string             `json:"groupname"`
	Roles     []broker.RoleRef   `json:"roles"`
	Clients   []broker.MemberRef `json:"clients"`
}

// SetPassword stores the password like Mosquitto 2.0, but with a single iteration: a test's
// passwords are not secret.
func (c *DocumentClient) SetPassword(t testing.TB, password string) {
	t.Helper()
	salt := make([]byte, 12)
	rand.Read(salt)
	hash, err := pbkdf2.Key(sha512.New, password, salt, 1, sha512.Size)
	if err != nil {
		t.Fatalf("hash a password: %v", err)
	}
	c.Password = base64.StdEncoding.EncodeToString(hash)
	c.Salt = base64.StdEncoding.EncodeToString(salt)
	c.Iterations = 1
}

// JSON returns the document as the content of a file.
func (d Document) JSON(t testing.TB) []byte {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("encode dynamic-security.json: %v", err)
	}
	return b
}

// AdminRole returns a role with every right that a role can grant.
func AdminRole(name string) broker.Role {
	role := broker.Role{RoleName: name, AllowWildcardSubs: true}
	for _, acltype := range []broker.ACLType{broker.PublishClientSend, broker.PublishClientReceive,
		broker.SubscribePattern, broker.UnsubscribePattern} {
		for _, topic := range []string{"$CONTROL/#", "$SYS/#", "#"} {
			role.ACLs = append(role.ACLs, broker.ACL{ACLType: acltype, Topic: topic, Allow: true})
		}
	}
	return role
}

// adminDocument contains one client with all rights, and Mosquitto's defaults.
func adminDocument(t testing.TB, username, password string) []byte {
	t.Helper()
	admin := DocumentClient{Username: username, Roles: []broker.RoleRef{{RoleName: "admin", Priority: broker.NoPriority}}}
	admin.SetPassword(t, password)
	return Document{
		DefaultACLAccess: map[string]bool{"publishClientSend": false, "publishClientReceive": true,
			"subscribe": false, "unsubscribe": true},
		Clients: []DocumentClient{admin},
		Groups:  []DocumentGroup{},
		Roles:   []broker.Role{AdminRole("admin")},
	}.JSON(t)
}
