package systemtest

import (
	"debug/buildinfo"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"signalbox/scripts/process"
)

// allowedLicences are those that a module may have: they let the program be passed on
// under its own licence.
var allowedLicences = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "blessing"}

// alternatives are licences that a module may have in addition to one of allowedLicences,
// which the user may choose.
var alternatives = map[string]string{"github.com/eclipse/paho.mqtt.golang": "EPL-2.0"}

// billOfMaterials is the part of a CycloneDX document that the test reads.
type billOfMaterials struct {
	Format       string `json:"bomFormat"`
	SerialNumber string `json:"serialNumber"`
	Components   []struct {
		Name, Version, PURL string
		Licences            []struct{ License struct{ ID string } } `json:"licenses"`
	} `json:"components"`
}

// TestBillOfMaterials compares what the program prints about itself with what Go's tools
// read from it: every module is there, with an allowed licence and its text.
func TestBillOfMaterials(t *testing.T) {
	t.Parallel()
	info, err := buildinfo.ReadFile(process.Program)
	if err != nil {
		t.Fatal(err)
	}
	first, again := command(t, nil, "version", "--sbom"), command(t, nil, "version", "--sbom")
	if first.code != 0 || first.stdout != again.stdout {
		t.Fatalf("exit code %d, %q; twice the same: %t", first.code, first.stderr, first.stdout == again.stdout)
	}
	var doc billOfMaterials
	if err := json.Unmarshal([]byte(first.stdout), &doc); err != nil || doc.Format != "CycloneDX" || !strings.HasPrefix(doc.SerialNumber, "urn:uuid:") {
		t.Fatalf("%v: %s", err, first.stdout)
	}
	licences := command(t, nil, "version", "--licenses").stdout
	listed := map[string]bool{}
	for _, c := range doc.Components {
		listed[c.Name+" "+c.Version] = true
		if len(c.Licences) == 0 {
			t.Errorf("%s has no licence", c.Name)
		}
		for _, l := range c.Licences {
			if id := l.License.ID; !slices.Contains(allowedLicences, id) && alternatives[c.Name] != id {
				t.Errorf("%s has the licence %q, which is not allowed", c.Name, id)
			}
		}
		if !strings.Contains(licences, c.Name+" "+c.Version+" (") {
			t.Errorf("version --licenses lacks %s", c.Name)
		}
	}
	for _, m := range info.Deps {
		if !listed[m.Path+" "+m.Version] {
			t.Errorf("%s %s is in the program, and not in the bill of materials", m.Path, m.Version)
		}
	}
	if !listed["std "+info.GoVersion] || len(info.Deps) < 50 {
		t.Errorf("the standard library is listed: %t; %d modules", listed["std "+info.GoVersion], len(info.Deps))
	}
	if got := command(t, nil, "version", "--sbom", "--licenses"); got.code != 2 {
		t.Errorf("both flags: %+v", got)
	}
}
