package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mayImport is the diagram of this module: each package, and the packages of
// ours that it may import. Whoever adds a package draws it in here.
var mayImport = map[string][]string{
	"": {"broker", "broker/dynsec", "broker/embedded", "broker/embedded/access", "broker/remote",
		"db", "handlers", "handlers/auth", "handlers/vault", "router"},
	"router":                 {"broker", "db", "handlers", "handlers/auth"},
	"handlers":               {"broker", "db", "handlers/auth", "handlers/vault"},
	"handlers/auth":          {"db"},
	"handlers/vault":         {},
	"db":                     {},
	"broker":                 {},
	"broker/dynsec":          {"broker"},
	"broker/remote":          {"broker", "broker/dynsec"},
	"broker/embedded":        {"broker", "broker/dynsec", "broker/embedded/access"},
	"broker/embedded/access": {"broker", "broker/dynsec"},

	// What only tests and the gate use.
	"broker/brokertest": {"broker", "broker/dynsec"},
	"db/dbtest":         {"db"},
	"router/apitest": {"broker", "broker/dynsec", "broker/embedded", "broker/remote",
		"db", "db/dbtest", "handlers", "handlers/auth", "handlers/vault", "router"},
	"scripts/testlines": {},
}

// onlyIn names the packages that know a library; to all others it is closed. A
// module's path covers every package in it, a package of the standard library
// only itself.
var onlyIn = map[string][]string{
	"github.com/spf13/viper":              {""},
	"github.com/spf13/cobra":              {""},
	"github.com/julienschmidt/httprouter": {"router"},
	"github.com/getkin/kin-openapi":       {"router", "router/apitest"},
	"github.com/swaggest/swgui":           {"router"},
	"github.com/prometheus/client_golang": {"", "router"},
	"github.com/eclipse/paho.mqtt.golang": {"broker/remote", "broker/brokertest"},
	"github.com/mochi-mqtt/server/v2":     {"broker/embedded"},
	"modernc.org/sqlite":                  {"db", "broker/embedded/access"},
	"github.com/pressly/goose/v3":         {"db", "broker/embedded/access"},
	"database/sql":                        {"db", "db/dbtest", "broker/embedded/access"},
	"net/http":                            {"", "router", "router/apitest", "broker/embedded", "broker/remote"},
	"testing":                             {"broker/brokertest", "db/dbtest", "router/apitest"},

	// Nobody's: there is something better, or it needs a C compiler.
	"log":                         {},
	"math/rand":                   {},
	"io/ioutil":                   {},
	"github.com/mattn/go-sqlite3": {},
	"github.com/stretchr/testify": {},
	"github.com/pkg/errors":       {},
	"github.com/sirupsen/logrus":  {},
	"golang.org/x/exp":            {},
}

// imports is what "go list" tells about a package.
type imports struct {
	ImportPath string
	Imports    []string
}

// TestImports walks what every package imports, its tests left out, and fails
// on an edge that the diagram does not show.
func TestImports(t *testing.T) {
	t.Parallel()
	for _, p := range listImports(t) {
		for _, complaint := range forbidden(p) {
			t.Error(complaint)
		}
	}
}

// TestImportsAreForbidden shows that TestImports can fail.
func TestImportsAreForbidden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		give imports
		want []string
	}{
		{"an edge of the diagram", imports{"signalbox/router", []string{"signalbox/handlers", "net/http", "log/slog"}}, nil},
		{"an edge upwards", imports{"signalbox/db", []string{"signalbox/handlers"}}, []string{"db must not import handlers"}},
		{"an edge sideways", imports{"signalbox/broker", []string{"signalbox/db"}}, []string{"broker must not import db"}},
		{"an edge to main", imports{"signalbox/router", []string{"signalbox"}}, []string{"router must not import main"}},
		{"a library elsewhere", imports{"signalbox/handlers", []string{"net/http"}}, []string{"handlers must not import net/http"}},
		{"a package of a library elsewhere", imports{"signalbox/db", []string{"github.com/spf13/viper/remote"}},
			[]string{"db must not import github.com/spf13/viper/remote"}},
		{"a name that only begins like a library's", imports{"signalbox/db", []string{"github.com/spf13/viperish"}}, nil},
		{"a package outside the diagram", imports{"signalbox/utils", nil}, []string{"utils is not in the diagram"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, forbidden(tt.give)); diff != "" {
				t.Errorf("complaints (-want +got):\n%s", diff)
			}
		})
	}
}

// forbidden lists what is wrong with a package's imports.
func forbidden(p imports) (complaints []string) {
	from, _ := ours(p.ImportPath)
	allowed, known := mayImport[from]
	if !known {
		return []string{display(from) + " is not in the diagram"}
	}
	for _, path := range p.Imports {
		to, own := ours(path)
		if own && !slices.Contains(allowed, to) || !own && closed(from, path) {
			complaints = append(complaints, fmt.Sprintf("%s must not import %s", display(from), display(to)))
		}
	}
	return complaints
}

// closed tells whether the library that holds path is one that from may not
// know.
func closed(from, path string) bool {
	for library, knowers := range onlyIn {
		module := strings.Contains(strings.Split(library, "/")[0], ".")
		if path == library || module && strings.HasPrefix(path, library+"/") {
			return !slices.Contains(knowers, from)
		}
	}
	return false
}

// ours cuts the module's name off the path of one of its packages.
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
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
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
