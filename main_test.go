package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"signalbox/router/appliance"
)

// mayImport is the dependency diagram of this module: each package, and the packages of
// ours that it may import. A new package must be added here.
var mayImport = map[string][]string{
	"": {"broker", "broker/dynsec", "handlers/zones", "router/appliance", "router/appliance/backup", "router/appliance/doctor", "router/appliance/upgrade", "router/cli", "router/client", "router/components", "router/manual"},
	"router/appliance": {"broker", "broker/clusters", "broker/embedded", "broker/embedded/access", "broker/embedded/cluster/sessions", "broker/embedded/listen", "broker/embedded/cluster/mesh",
		"broker/bridges", "broker/bridges/http", "broker/bridges/influxdb", "broker/bridges/kafka", "broker/bridges/mqtt", "broker/bridges/nats", "broker/bridges/sql", "broker/bridges/store",
		"broker/clock", "broker/storage", "broker/messaging", "broker/outbound", "broker/remote", "broker/streams", "broker/streams/store", "db", "handlers", "handlers/audit", "handlers/audit/sinks", "handlers/auth", "handlers/jobs", "handlers/vault", "router", "router/appliance/backup", "router/appliance/datadir", "router/appliance/doctor", "router/appliance/upgrade", "broker/monitor"},
	"router/cli":                      {"broker", "broker/mqtt/dial", "router", "router/client", "router/loadtest", "router/site", "broker/thresholds"},
	"router/loadtest":                 {"broker", "broker/messaging", "broker/mqtt/client", "broker/mqtt/dial"},
	"router/site":                     {"broker", "broker/dynsec"},
	"router/client":                   {"broker"},
	"router":                          {"broker", "broker/panics", "handlers", "handlers/audit", "handlers/auth", "router/console", "router/manual", "router/site", "router/swaggerui"},
	"router/console":                  {"broker/thresholds", "handlers/packed", "handlers/zones"},
	"router/manual":                   {"handlers/packed"},
	"router/components":               {"router/swaggerui"},
	"router/swaggerui":                {},
	"handlers":                        {"broker", "broker/clusters", "broker/panics", "db", "handlers/audit", "handlers/audit/sinks", "handlers/auth", "handlers/jobs", "handlers/vault", "handlers/zones", "broker/monitor"},
	"handlers/audit":                  {"db", "handlers/audit/sinks"},
	"handlers/audit/sinks":            {"broker/webhook", "db"},
	"handlers/auth":                   {"db"},
	"handlers/jobs":                   {"broker/panics"},
	"handlers/packed":                 {},
	"handlers/vault":                  {"broker/storage"},
	"handlers/zones":                  {"handlers/packed"},
	"db":                              {"broker/storage"},
	"broker":                          {},
	"broker/dynsec":                   {"broker", "broker/dynsec/pbkdf2"},
	"broker/dynsec/pbkdf2":            {},
	"broker/dynsec/pbkdf2/generate":   {},
	"broker/embedded/cluster":         {"broker/embedded/cluster/raftlog", "broker/latency", "broker/storage"},
	"broker/embedded/cluster/raftlog": {"broker/storage"},
	"broker/clusters":                 {"broker", "broker/control"},
	"broker/control":                  {"broker", "broker/dynsec"},
	"broker/monitor":                  {"broker", "broker/panics", "broker/storage"},
	"broker/pages":                    {"broker"},
	"broker/latency":                  {},
	"broker/thresholds":               {},
	"broker/panics":                   {},
	"broker/webhook":                  {},
	"broker/ranking":                  {"broker/panics"},
	"broker/topictree":                {"broker", "broker/control", "broker/dynsec"},
	"broker/remote":                   {"broker", "broker/control", "broker/dynsec", "broker/latency", "broker/pages", "broker/ranking", "broker/messaging", "broker/outbound", "broker/mqtt/dial", "broker/mqtt/client", "broker/mqtt/hosted", "broker/topictree"},
	"broker/mqtt/client":              {"broker", "broker/embedded/poll", "broker/messaging", "broker/mqtt/topics", "broker/mqtt/packet"},
	"broker/mqtt/dial":                {"broker", "broker/outbound"},
	"broker/mqtt/hosted":              {"broker", "broker/messaging", "broker/mqtt/client"},
	"broker/embedded": {"broker/thresholds", "broker", "broker/mqtt/client", "broker/mqtt/hosted", "broker/embedded/cluster", "broker/control", "broker/dynsec", "broker/embedded/access", "broker/embedded/cluster/sessions",
		"broker/embedded/engine", "broker/embedded/limits", "broker/embedded/listen", "broker/embedded/poll", "broker/embedded/cluster/mesh", "broker/embedded/cluster/mesh/backlog", "broker/embedded/cluster/replica", "broker/embedded/schema",
		"broker/embedded/store", "broker/embedded/sys", "broker/bridges", "broker/clock", "broker/storage", "broker/messaging", "broker/pages", "broker/ranking", "broker/streams", "broker/mqtt/topics", "broker/topictree", "broker/mqtt/packet"},
	"broker/embedded/access":               {"broker", "broker/dynsec", "broker/dynsec/pbkdf2", "broker/embedded/schema", "broker/storage"},
	"broker/embedded/cluster/sessions":     {"broker/embedded/engine", "broker/mqtt/packet", "broker/records"},
	"broker/embedded/engine":               {"broker/embedded/poll", "broker/messaging", "broker/panics", "broker/ranking", "broker/mqtt/topics", "broker/mqtt/packet"},
	"broker/embedded/limits":               {"broker"},
	"broker/embedded/listen":               {"broker", "broker/embedded/limits", "broker/embedded/poll"},
	"broker/embedded/poll":                 {},
	"broker/embedded/cluster/mesh":         {"broker/embedded/cluster/mesh/backlog", "broker/embedded/engine", "broker/records"},
	"broker/embedded/cluster/mesh/backlog": {"broker/storage"},
	"broker/embedded/cluster/replica":      {"broker/embedded/engine"},
	"broker/embedded/cluster/replicas":     {"broker/embedded/engine", "broker/embedded/schema", "broker/embedded/store", "broker/records", "broker/storage"},
	"broker/embedded/schema":               {"broker/storage"},
	"broker/embedded/store":                {"broker/embedded/engine", "broker/records", "broker/storage"},
	"broker/embedded/sys":                  {"broker", "broker/embedded/engine"},
	"broker/clock":                         {"broker/storage"},
	"broker/records":                       {},
	"broker/storage":                       {"broker/records"},
	"broker/outbound":                      {},
	"broker/mqtt/packet":                   {},
	"broker/mqtt/topics":                   {},
	"broker/messaging":                     {"broker", "broker/mqtt/packet"},
	"broker/messaging/messagingtest":       {"broker", "broker/messaging"},
	"broker/bridges":                       {"broker", "broker/bridges/mapping", "broker/messaging", "broker/panics"},
	"broker/bridges/mapping":               {"broker/messaging", "broker/mqtt/packet"},
	"broker/bridges/target":                {"broker/bridges", "broker/outbound"},
	"broker/bridges/store":                 {"broker", "broker/bridges", "broker/clock", "broker/records", "broker/storage"},
	"broker/bridges/http":                  {"broker", "broker/bridges", "broker/bridges/mapping", "broker/bridges/target", "broker/webhook"},
	"broker/bridges/influxdb":              {"broker/bridges", "broker/bridges/mapping", "broker/bridges/target"},
	"broker/bridges/kafka":                 {"broker/bridges", "broker/bridges/mapping", "broker/bridges/target", "broker/messaging", "broker/mqtt/packet"},
	"broker/bridges/mqtt":                  {"broker", "broker/bridges", "broker/messaging", "broker/mqtt/dial", "broker/mqtt/client", "broker/mqtt/packet"},
	"broker/bridges/nats":                  {"broker/bridges", "broker/bridges/mapping", "broker/bridges/target", "broker/messaging", "broker/mqtt/packet"},
	"broker/bridges/sql":                   {"broker/bridges", "broker/bridges/mapping", "broker/bridges/target", "broker/outbound"},
	"broker/streams":                       {"broker", "broker/messaging", "broker/streams/query"},
	"broker/streams/query":                 {"broker/records"},
	"broker/streams/store":                 {"broker", "broker/clock", "broker/records", "broker/storage", "broker/messaging", "broker/streams"},

	"router/appliance/backup":  {"broker/storage"},
	"router/appliance/datadir": {"broker/storage"},
	"router/appliance/doctor":  {"broker/thresholds", "broker/storage"},
	"router/appliance/upgrade": {"broker/storage"},

	// Packages for tests and the gate only.
	"broker/clock/clocktest":      {"broker/clock"},
	"broker/storage/storagetest":  {"broker/storage"},
	"broker/brokertest":           {"broker", "broker/mqtt/mqtttest", "broker/mqtt/mqtttest/packet", "scripts/process", "scripts/suite"},
	"broker/mqtt/mqtttest":        {"broker/mqtt/mqtttest/packet", "scripts/suite"},
	"broker/mqtt/mqtttest/packet": {},
	"broker/embedded/enginetest":  {"broker/embedded/engine", "broker/embedded/poll", "broker/embedded/schema", "broker/embedded/store", "broker/storage", "broker/mqtt/packet"},
	"broker/bridges/bridgestest":  {"broker", "broker/bridges", "broker/bridges/mapping", "broker/messaging", "scripts/suite"},
	"broker/bridges/peertest":     {"broker/brokertest", "scripts/process", "scripts/suite"},
	"db/dbtest":                   {"db"},
	"handlers/packed/packedtest":  {"handlers/packed"},
	"router/apitest":              {"handlers", "router/appliance", "scripts/suite"},
	"router/console/browsertest":  {"scripts/process", "scripts/suite"},
	"scripts/bench":               {"broker", "broker/dynsec", "scripts/bench/load", "scripts/bench/relay", "scripts/bench/sink"},
	"scripts/bench/load":          {"broker/mqtt/mqtttest/packet"},
	"scripts/bench/mqttload":      {"scripts/bench/load"},
	"scripts/bench/profiled":      {"router/appliance"},
	"scripts/bench/relay":         {"broker/mqtt/mqtttest/packet"},
	"scripts/bench/sink":          {},
	"scripts/crash":               {},
	"scripts/flood":               {},
	"scripts/process":             {"scripts/suite"},
	"scripts/suite":               {},
	"scripts/licences":            {"router/components"},
	"scripts/sbom":                {"router/components"},
	"scripts/packagetest":         {},
	"scripts/testlines":           {},
	"scripts/words":               {},

	// Tests only, of the binary.
	"broker/embedded/conformance": {},
	"router/appliance/systemtest": {},
}

// onlyIn lists the packages that may import a library; all others may not. A module's
// path covers every package in it, a package of the standard library only itself.
var onlyIn = map[string][]string{
	"github.com/spf13/viper":                   {""},
	"github.com/spf13/cobra":                   {"", "router/cli"},
	"github.com/schollz/progressbar/v3":        {"router/cli"},
	"golang.org/x/term":                        {""},
	"github.com/coreos/go-systemd/v22":         {""},
	"github.com/julienschmidt/httprouter":      {"router", "scripts/bench"},
	"github.com/getkin/kin-openapi":            {"router/apitest"},
	"github.com/chromedp":                      {"router/console/browsertest"},
	"github.com/swaggest/swgui":                {}, // for a test
	"github.com/vearutop/statigz":              {"router"},
	"github.com/yuin/goldmark":                 {"router/manual"},
	"github.com/prometheus/client_golang":      {"router", "router/appliance", "broker/embedded", "broker/embedded/sys"},
	"github.com/eclipse/paho.mqtt.golang":      {"broker/remote", "broker/brokertest", "broker/mqtt/mqtttest"},
	"github.com/mochi-mqtt/server/v2":          {"broker/mqtt/packet"},
	"github.com/hashicorp/raft":                {"broker/embedded/cluster", "broker/embedded/cluster/raftlog"},
	"modernc.org/sqlite":                       {"db", "broker/storage", "broker/storage/storagetest", "broker/streams/store", "scripts/bench"},
	"github.com/pressly/goose/v3":              {"broker/storage"},
	"database/sql":                             {"broker/clock", "broker/embedded/cluster/raftlog", "broker/embedded/cluster/mesh/backlog", "db", "broker/embedded/access", "broker/embedded/store", "broker/monitor", "broker/storage", "broker/storage/storagetest", "broker/streams/store", "broker/bridges/store", "broker/bridges/peertest", "broker/bridges/sql", "scripts/bench"},
	"net/http":                                 {"handlers/audit/sinks", "router", "router/client", "router/console", "router/manual", "router/apitest", "broker/embedded/listen", "broker/bridges/http", "broker/bridges/influxdb", "broker/bridges/peertest", "broker/bridges/target", "scripts/bench", "scripts/bench/sink"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"broker/bridges", "router/apitest", "router/site"},
	"github.com/jackc/pgx/v5":                  {"broker/bridges/peertest", "broker/bridges/sql"},
	"github.com/go-sql-driver/mysql":           {"broker/bridges/peertest", "broker/bridges/sql"},
	"github.com/twmb/franz-go":                 {"broker/bridges/kafka"},
	"github.com/nats-io":                       {"broker/bridges/nats", "scripts/bench/sink"},
	"golang.org/x/text":                        {"router/console"},
	"github.com/gofrs/flock":                   {"router/appliance", "router/appliance/backup"},
	"filippo.io/age":                           {"router/appliance/backup"},
	"aead.dev/minisign":                        {"router/appliance/upgrade"},
	"github.com/klauspost/compress":            {"handlers/packed", "handlers/packed/packedtest", "router/appliance/backup"},
	"log":                                      {""}, // to silence it
	"github.com/jba/templatecheck":             {},   // for tests
	"testing":                                  {"broker/bridges/bridgestest", "broker/bridges/peertest", "broker/brokertest", "broker/embedded/enginetest", "broker/mqtt/mqtttest", "broker/storage/storagetest", "db/dbtest", "handlers/packed/packedtest", "router/apitest", "router/console/browsertest", "scripts/process", "scripts/suite"},

	// No package may import these: there is something better, or they need a C
	// compiler.
	"math/rand":                   {},
	"io/ioutil":                   {},
	"github.com/mattn/go-sqlite3": {},
	"github.com/stretchr/testify": {},
	"github.com/pkg/errors":       {},
	"github.com/sirupsen/logrus":  {},
	"golang.org/x/exp":            {},
}

// TestExampleConfig compares config.example.yaml with the defaults: it has every key,
// with its default.
func TestExampleConfig(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("config", "config.example.yaml", "")
	got, err := loadConfig(flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(appliance.DefaultConfig(), got); diff != "" {
		t.Errorf("config.example.yaml differs from the defaults (-default +file):\n%s", diff)
	}
	v := viper.New()
	v.SetConfigFile("config.example.yaml")
	if err := v.ReadInConfig(); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(maps.Keys(settings(reflect.TypeFor[appliance.Config](), "", map[string]reflect.Type{})))
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(v.AllKeys()))); diff != "" {
		t.Errorf("keys of config.example.yaml (-want +got):\n%s", diff)
	}
}

// TestConfigSources sets one key in every source, and invalid values of every type.
func TestConfigSources(t *testing.T) {
	t.Parallel()
	file := write(t, "http: {listen: 127.0.0.1:1}\nbroker: {listen: 127.0.0.1:2}\nadmin: {password: '12345678'}\n")
	environ := []string{"SIGNALBOX_HTTP_LISTEN=127.0.0.1:3", "SIGNALBOX_BROKER_ENABLED=false", "SIGNALBOX_AUTH_SESSION_TTL=90m",
		"SIGNALBOX_HTTP_TRUSTED_PROXIES=10.0.0.0/8,127.0.0.1", "SIGNALBOX_BROKER_ADMIN_PASSWORD=0123456789", "SIGNALBOX_BROKER_MAX_PACKET_SIZE=4096",
		"SIGNALBOX_TOKEN=x", "SIGNALBOX_URL=https://x", "SIGNALBOX_CONTEXT=x", "SIGNALBOX_SERVICE_HOST=10.0.0.1"}
	want := appliance.DefaultConfig()
	want.HTTP.Listen, want.Broker.Listen, want.Admin.Password = "127.0.0.1:4", "127.0.0.1:2", "12345678"
	want.Broker.Enabled, want.Auth.SessionTTL, want.Broker.AdminPassword = false, 90*time.Minute, "0123456789"
	want.HTTP.TrustedProxies, want.Broker.MaxPacketSize = []string{"10.0.0.0/8", "127.0.0.1"}, 4096
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("config", file, "")
	flags.String("http.listen", "", "")
	if err := flags.Set("http.listen", "127.0.0.1:4"); err != nil {
		t.Fatal(err)
	}
	got, err := loadConfig(flags, environ)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags over environment over file over defaults (-want +got):\n%s", diff)
	}
}

// TestBadConfig names the key of every invalid value, and opens nothing.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, env, names string }{
		{file: "http: {lissten: x}", names: "http.lissten"},
		{file: "http: oops", names: "http"},
		{file: "nonsense: 1", names: "nonsense"},
		{file: "broker: {enabled: 1}", names: "broker.enabled"},
		{file: "broker: {connect_timeout: 5}", names: "broker.connect_timeout"},
		{file: "broker: {listeners: [{protocol: mqtt, adress: x}]}", names: "adress"},
		{file: "broker: {listeners: [{protocol: mqtt, address: x}]}", names: "broker.listeners[0].address"},
		{file: "auth: {session_ttl: 1s}", names: "auth.session_ttl"},
		{file: "log: {level: loud}", names: "log.level"},
		{file: "log: {format: xml}", names: "log.format"},
		{file: "backup: {schedule: daily, directory: x}", names: "backup.schedule"},
		{file: "backup: {schedule: 6h}", names: "backup.directory"},
		{file: "backup: {keep: 7}", names: "backup.keep"},
		{file: "backup: {recipients: [AGE-SECRET-KEY-1]}", names: "backup.recipients"},
		{file: "backup: {with_key: true}", names: "backup.with_key"},
		{file: "cluster: {expect: plant}", names: "cluster.listen"},
		{file: "cluster: {expect: plant, listen: 127.0.0.1:0}", names: "broker.listeners"},
		{file: "data_dir: twice", names: "data_dir"},
		{env: "SIGNALBOX_HTTP_LISTN=x", names: "SIGNALBOX_HTTP_LISTN"},
		{env: "SIGNALBOX_CONFIG=signalbox.yaml", names: "SIGNALBOX_CONFIG"},
		{env: "SIGNALBOX_ADDRESS=http://127.0.0.1:8080", names: "SIGNALBOX_ADDRESS"},
		{env: "SIGNALBOX_BROKER_ENABLED=maybe", names: "SIGNALBOX_BROKER_ENABLED"},
		{env: "SIGNALBOX_BROKER_LISTENERS=x", names: "SIGNALBOX_BROKER_LISTENERS"},
		{env: "SIGNALBOX_ADMIN_PASSWORD=short", names: "admin.password"},
	} {
		t.Run(c.file+c.env, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			var out, errs bytes.Buffer
			stopped, stop := context.WithCancel(t.Context())
			stop() // so that a start that succeeds ends at once
			code := run(stopped, []string{"serve", "--config", write(t, "data_dir: "+dir+"\n"+c.file)}, []string{c.env}, nil, &out, &errs)
			if code != 1 || !strings.Contains(errs.String(), c.names) {
				t.Errorf("got exit code %d and %q, want 1 and %s named", code, errs.String(), c.names)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Error("the data directory was made")
			}
		})
	}
}

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// notInTests are packages that no test may import: the codec of the product is checked with
// that of broker/mqtt/mqtttest.
var notInTests = []string{"github.com/mochi-mqtt/server/v2/packets"}

// imports is the output of "go list" for a package.
type imports struct {
	ImportPath                string
	Imports                   []string
	TestImports, XTestImports []string
}

// TestImports checks the imports of every package, and fails for each that the diagram does
// not allow, and for each permission that none needs. Tests may import anything but
// notInTests.
func TestImports(t *testing.T) {
	t.Parallel()
	all := listImports(t)
	for _, p := range all {
		for _, violation := range forbidden(p) {
			t.Error(violation)
		}
	}
	for _, permission := range unused(all) {
		t.Error(permission)
	}
}

// TestImportsAreForbidden checks that TestImports can fail.
func TestImportsAreForbidden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		give imports
		want []string
	}{
		{"an edge of the diagram", imports{ImportPath: "signalbox/router", Imports: []string{"signalbox/handlers", "net/http", "log/slog"}}, nil},
		{"an edge upwards", imports{ImportPath: "signalbox/db", Imports: []string{"signalbox/handlers"}}, []string{"db must not import handlers"}},
		{"an edge sideways", imports{ImportPath: "signalbox/broker", Imports: []string{"signalbox/db"}}, []string{"broker must not import db"}},
		{"an edge to main", imports{ImportPath: "signalbox/router", Imports: []string{"signalbox"}}, []string{"router must not import main"}},
		{"a library elsewhere", imports{ImportPath: "signalbox/handlers", Imports: []string{"net/http"}}, []string{"handlers must not import net/http"}},
		{"a package of a library elsewhere", imports{ImportPath: "signalbox/db", Imports: []string{"github.com/spf13/viper/remote"}},
			[]string{"db must not import github.com/spf13/viper/remote"}},
		{"a name that only begins like a library's", imports{ImportPath: "signalbox/db", Imports: []string{"github.com/spf13/viperish"}}, nil},
		{"the product's codec in a test", imports{ImportPath: "signalbox/db", XTestImports: []string{"github.com/mochi-mqtt/server/v2/packets", "net/http"}},
			[]string{"tests of db must not import github.com/mochi-mqtt/server/v2/packets"}},
		{"a package outside the diagram", imports{ImportPath: "signalbox/utils"}, []string{"utils is not in the diagram"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, forbidden(tt.give)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnusedPermissions checks that TestImports notices a permission that nothing needs.
func TestUnusedPermissions(t *testing.T) {
	t.Parallel()
	all := listImports(t)
	if got := unused(all); got != nil {
		t.Fatalf("got %q", got)
	}
	i := slices.IndexFunc(all, func(p imports) bool { return p.ImportPath == "signalbox/router/manual" })
	all[i].Imports = slices.DeleteFunc(all[i].Imports, func(path string) bool {
		return path == "net/http" || strings.HasPrefix(path, "github.com/yuin/goldmark")
	})
	want := []string{"router/manual may import github.com/yuin/goldmark, and does not", "router/manual may import net/http, and does not"}
	if diff := cmp.Diff(want, unused(all)); diff != "" {
		t.Errorf("unused permissions (-want +got):\n%s", diff)
	}
}

// forbidden returns the violations in a package's imports.
func forbidden(p imports) (violations []string) {
	from, _ := ours(p.ImportPath)
	allowed, known := mayImport[from]
	if !known {
		return []string{display(from) + " is not in the diagram"}
	}
	for _, path := range p.Imports {
		to, own := ours(path)
		if own && !slices.Contains(allowed, to) || !own && closed(from, path) {
			violations = append(violations, fmt.Sprintf("%s must not import %s", display(from), display(to)))
		}
	}
	for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
		if slices.Contains(notInTests, path) {
			violations = append(violations, fmt.Sprintf("tests of %s must not import %s", display(from), path))
		}
	}
	return violations
}

// unused returns the permissions of the diagram that no import needs.
func unused(all []imports) (permissions []string) {
	used := map[[2]string]bool{} // importing package; package or library
	for _, p := range all {
		from, _ := ours(p.ImportPath)
		for _, path := range p.Imports {
			to, own := ours(path)
			if own {
				used[[2]string{from, to}] = true
			} else if library, _ := restricted(path); library != "" {
				used[[2]string{from, library}] = true
			}
		}
	}
	report := func(from, to string) {
		if !used[[2]string{from, to}] {
			permissions = append(permissions, fmt.Sprintf("%s may import %s, and does not", display(from), display(to)))
		}
	}
	for from, allowed := range mayImport {
		for _, to := range allowed {
			report(from, to)
		}
	}
	for library, knowers := range onlyIn {
		for _, from := range knowers {
			report(from, library)
		}
	}
	slices.Sort(permissions)
	return permissions
}

// closed reports whether path is in a library that from may not import.
func closed(from, path string) bool {
	library, knowers := restricted(path)
	return library != "" && !slices.Contains(knowers, from)
}

// restricted returns the library of onlyIn that a package is in, and which packages may import
// it; "" for none.
func restricted(path string) (library string, knowers []string) {
	for library, knowers := range onlyIn {
		module := strings.Contains(strings.Split(library, "/")[0], ".")
		if path == library || module && strings.HasPrefix(path, library+"/") {
			return library, knowers
		}
	}
	return "", nil
}

// ours removes the module's name from the path of one of its packages.
func ours(path string) (name string, own bool) {
	if path == "signalbox" {
		return "", true
	}
	name, own = strings.CutPrefix(path, "signalbox/")
	return name, own
}

func display(name string) string {
	if name == "" {
		return "main"
	}
	return name
}

func listImports(t *testing.T) (all []imports) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p imports
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("read what go list says: %v", err)
		}
		all = append(all, p)
	}
}

// maxDesign bounds a DESIGN.md, in lines: what is longer is not read.
const maxDesign = 150

// TestDesigns checks the length of the documents of the packages.
func TestDesigns(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "DESIGN.md" {
			return err
		}
		text, err := os.ReadFile(path)
		found++
		if n := bytes.Count(text, []byte("\n")); n > maxDesign {
			t.Errorf("%s has %d lines; keep it within %d", path, n, maxDesign)
		}
		return err
	})
	if err != nil || found < 20 {
		t.Errorf("%d documents were found: %v", found, err)
	}
}
