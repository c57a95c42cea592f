package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"signalbox/broker/embedded/listen"
	"signalbox/handlers/vault"
	"signalbox/router/appliance/doctor"
)

// Examination are the options of Examine.
type Examination struct {
	Version    string
	ConfigFile string // "" for none
	// Offline leaves out what connects to other machines.
	Offline bool
}

// examination is what the checks share.
type examination struct {
	Examination
	c        Config
	now      time.Time
	exists   bool // the data directory
	running  bool
	service  *Diagnostics // of the running service; nil if it did not answer
	silence  error        // why it did not
	vault    *vault.Vault // nil if it cannot be opened
	findings []doctor.Finding
}

// Examine finds out what is wrong with the installation of a valid configuration, while the
// service runs and while it does not. It changes nothing.
func Examine(ctx context.Context, c Config, o Examination) *doctor.Report {
	e := &examination{Examination: o, c: c, now: time.Now()}
	_, err := os.Stat(c.DataDir)
	e.exists = err == nil
	if e.exists {
		e.running, _ = isLocked(c.DataDir)
		e.service, e.silence = AskRunning(ctx, c)
		e.running = e.running || e.service != nil
	}
	r := &doctor.Report{Version: o.Version, Time: e.now.UTC(), DataDir: c.DataDir, Running: e.running, Findings: []doctor.Finding{}}
	for _, check := range e.checks() {
		e.findings = r.Findings
		r.Add(check(ctx)...)
	}
	return r
}

// checks are all checks in their order. Each is about one part of an installation, returns a
// finding also if nothing is wrong, and bounds its own time.
func (e *examination) checks() []func(context.Context) []doctor.Finding {
	all := []func(context.Context) []doctor.Finding{e.configuration, e.directory}
	if e.exists {
		all = append(all, e.serviceItself, e.files, e.disk, e.databases, e.identity, e.secrets, e.audit, e.backups, e.clock)
	}
	all = append(all, e.ports, e.certificates, e.limits, e.proxies)
	if e.exists && !e.Offline {
		all = append(all, e.connections, e.cluster)
	}
	return all
}

// configuration is valid; its file is for the owner and a group only if it has secrets.
func (e *examination) configuration(context.Context) []doctor.Finding {
	if e.ConfigFile == "" {
		return []doctor.Finding{doctor.Good("configuration", "", "is valid; no file was named")}
	}
	if len(e.c.secrets()) > 0 {
		if f, wrong := doctor.ReadableByAll("configuration", e.ConfigFile); wrong {
			return []doctor.Finding{f}
		}
	}
	return []doctor.Finding{doctor.Good("configuration", e.ConfigFile, "is valid")}
}

// minSecretPath is the length above which the path of a webhook may be what admits its callers.
const minSecretPath = 12

// secrets returns the secrets of the configuration that are set.
func (c Config) secrets() (all []string) {
	if u, err := url.Parse(c.Audit.Sinks.Webhook); err == nil && (u.RawQuery != "" || len(u.Path) > minSecretPath) {
		all = append(all, u.RequestURI())
	}
	for _, s := range []string{string(c.Admin.Password), string(c.Broker.AdminPassword), string(c.HTTP.MetricsToken), c.Audit.Sinks.WebhookToken, c.Audit.Sinks.WebhookSecret} {
		if s != "" {
			all = append(all, s)
		}
	}
	return all
}

func (e *examination) directory(context.Context) []doctor.Finding {
	if !e.exists {
		return []doctor.Finding{doctor.Warn("directory", e.c.DataDir, "does not exist", "start the service, which creates it; or set data_dir to the directory of the service")}
	}
	if _, err := os.Stat(filepath.Join(e.c.DataDir, databaseFile)); err != nil {
		return []doctor.Finding{doctor.Warn("directory", e.c.DataDir, "has no "+databaseFile, "start the service, which creates it; or set data_dir to the directory of the service")}
	}
	return []doctor.Finding{doctor.Good("directory", e.c.DataDir, "exists")}
}

// serviceItself reports the state of a running service.
func (e *examination) serviceItself(context.Context) []doctor.Finding {
	switch s := e.service; {
	case !e.running:
		return []doctor.Finding{doctor.Good("service", "", "does not run")}
	case s == nil:
		return []doctor.Finding{doctor.Warn("service", "", fmt.Sprintf("runs, and does not answer at %s: %v", diagnosticsFile, e.silence),
			"run the command as the user of the service; if it was that, the service hangs, or is of an earlier release: restart it")}
	case s.NotReady != "":
		return []doctor.Finding{doctor.Bad("service", "", "is not ready: "+s.NotReady, "the other findings and the log of the service name the cause")}
	case s.Version != e.Version:
		return []doctor.Finding{doctor.Warn("service", "", fmt.Sprintf("runs as version %s, and this program is version %s", s.Version, e.Version), "restart the service")}
	}
	return []doctor.Finding{doctor.Good("service", "", "is ready; process %d, since %s", e.service.PID, e.service.Started.UTC().Format(time.RFC3339))}
}

// ports are free, or those of the running service.
func (e *examination) ports(context.Context) (found []doctor.Finding) {
	if !e.running {
		return doctor.FailedEach("ports", "", portsFree(e.c), "all ports are free")
	}
	if e.service == nil {
		return nil // which was reported
	}
	for _, a := range e.c.addresses() {
		found = append(found, doctor.Bound(a.key, a.address, e.service.Addresses))
	}
	return found
}

// address is an address to listen on, and the key that it was configured with.
type address struct{ key, address string }

// addresses returns the TCP addresses of all listeners.
func (c Config) addresses() []address {
	all := []address{{"http.listen", c.HTTP.Listen}}
	if !c.Broker.Enabled {
		return all
	}
	if c.Broker.Listen != "" {
		all = append(all, address{"broker.listen", c.Broker.Listen})
	}
	for _, l := range c.Broker.Listeners {
		if l.Protocol != listen.Unix { // not a port; binding it reports errors
			all = append(all, address{"broker.listeners", l.Address})
		}
	}
	if c.Cluster.Listen != "" {
		all = append(all, address{"cluster.listen", c.Cluster.Listen})
	}
	return all
}

// limits compares the limit on open files with the connections that are configured.
func (e *examination) limits(context.Context) []doctor.Finding {
	limit := openFiles()
	if e.service != nil {
		limit = e.service.OpenFiles
	}
	if limit == 0 {
		return []doctor.Finding{doctor.Good("limits", "", "this system has no limit on open files")}
	}
	fitted := e.c.fitDescriptors(limit, slog.New(slog.DiscardHandler))
	if e.c.Broker.Enabled && fitted.Broker.MaxConnections < e.c.Broker.MaxConnections {
		return []doctor.Finding{doctor.Warn("limits", "", fmt.Sprintf("%d files may be open, which allows %d MQTT connections and not the %d of broker.max_connections", limit, fitted.Broker.MaxConnections, e.c.Broker.MaxConnections),
			"raise the limit (ulimit -n, LimitNOFILE) or lower broker.max_connections")}
	}
	return []doctor.Finding{doctor.Good("limits", "", "%d files may be open, enough for all connections that are configured", limit)}
}

func (e *examination) proxies(context.Context) []doctor.Finding {
	var forwarded int64
	if e.service != nil {
		forwarded = e.service.Forwarded
	}
	return doctor.Proxies(e.c.HTTP.Listen, e.c.HTTP.TrustedProxies, e.c.HTTP.TLS.CertFile != "", forwarded)
}
