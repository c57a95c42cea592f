//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mosquitto is a Mosquitto. Its access is empty if it has no dynamic security.
type mosquitto struct {
	*child
	access access
	addr   string
}

var errNoMosquitto = errors.New("mosquitto with its dynamic security plugin is not installed (apt-get install mosquitto)")

func findMosquitto() (string, error) {
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoMosquitto
}

func findPlugin() (string, error) {
	for _, dir := range []string{"/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib"} {
		found, _ := filepath.Glob(filepath.Join(dir, "mosquitto_dynamic_security.so")) // the pattern is valid
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errNoMosquitto
}

// newMosquitto starts one with dynamic security and that many clients.
func (b *bench) newMosquitto(ctx context.Context, clients, iterations int) (*mosquitto, error) {
	plugin, err := findPlugin()
	if err != nil {
		return nil, err
	}
	return b.startMosquitto(ctx, func(m *mosquitto, dir string) (conf string, err error) {
		file := filepath.Join(dir, "dynamic-security.json")
		m.access, err = writeAccess(file, clients, iterations)
		return withPlugin(plugin, file), err
	})
}

// withPlugin returns the configuration of dynamic security.
func withPlugin(plugin, file string) string {
	return fmt.Sprintf("allow_anonymous false\nplugin %s\nplugin_opt_config_file %s\n", plugin, file)
}

// startMosquitto starts one with the lines that prepare adds to its configuration.
func (b *bench) startMosquitto(ctx context.Context, prepare func(m *mosquitto, dir string) (conf string, err error)) (*mosquitto, error) {
	binary, err := findMosquitto()
	if err != nil {
		return nil, err
	}
	dir := b.path("mosquitto")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	m := &mosquitto{}
	added, err := prepare(m, dir)
	if err != nil {
		return nil, err
	}
	if m.addr, err = freeAddress(); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(conf, []byte(m.configuration()+added), 0o600); err != nil {
		return nil, err
	}
	running := func(line string) bool { return strings.HasSuffix(line, " running") }
	if m.child, err = launch(ctx, nil, running, binary, "-c", conf); err != nil {
		return nil, err
	}
	b.started = append(b.started, m)
	return m, nil
}

// configuration returns the common configuration. Nagle's algorithm is off: otherwise a
// response waits until the client has acknowledged the previous segment.
func (m *mosquitto) configuration() string {
	_, port, _ := net.SplitHostPort(m.addr) // it was made by freeAddress
	conf := fmt.Sprintf("listener %s 127.0.0.1\nset_tcp_nodelay true\npersistence false\n"+
		"log_dest stderr\nlog_type information\nlog_type error\nconnection_messages false\n", port)
	if os.Geteuid() == 0 {
		conf += "user root\n" // otherwise it drops its privileges and cannot write here
	}
	return conf
}

// freeAddress returns the address of an unused port.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
