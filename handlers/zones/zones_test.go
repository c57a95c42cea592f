package zones

import (
	"archive/zip"
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/handlers/packed/packedtest"
)

var update = flag.Bool("update", false, "write zones.zip.zst anew")

// TestZonesArePacked compares zones.zip.zst with the zones of the Go distribution, and loads each.
func TestZonesArePacked(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	want := packedtest.Contents(t, source)
	packedtest.Check(t, "zones.zip.zst", want, *update)
	if *update { // what was written is built into the next test
		return
	}
	for name := range want {
		if zone, err := loadBuiltIn(name); err != nil || zone.String() != name {
			t.Errorf("%s: got %v, %v", name, zone, err)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for _, load := range []func(string) (*time.Location, error){Load, loadBuiltIn} {
		zone, err := load("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).In(zone).Format(time.RFC3339); got != "2026-07-01T14:00:00+02:00" {
			t.Errorf("got %s", got)
		}
		for _, name := range []string{"Europe", "Europe/Atlantis", "../Europe/Berlin", "/Europe/Berlin"} {
			if zone, err := load(name); err == nil {
				t.Errorf("%s: got %v", name, zone)
			}
		}
	}
	if zone, err := Load(""); err != nil || zone != time.UTC {
		t.Errorf("no name: got %v, %v", zone, err)
	}
}

// TestSetLocal sets the local zone where package time has fallen back to UTC, and nowhere else.
func TestSetLocal(t *testing.T) { // not parallel, as it changes what all share
	before := time.Local
	defer func() { time.Local = before }()
	for _, tt := range []struct {
		local    *time.Location
		tz, want string
	}{
		{time.UTC, "Europe/Berlin", "Europe/Berlin"},
		{time.UTC, ":Europe/Berlin", "Europe/Berlin"},
		{time.UTC, "", "UTC"},
		{time.UTC, "Europe/Atlantis", "UTC"},
		{time.FixedZone("Local", 3600), "Europe/Berlin", "Local"},
	} {
		time.Local = tt.local
		if SetLocal(tt.tz); time.Local.String() != tt.want {
			t.Errorf("%s for %q: got %s", tt.local, tt.tz, time.Local)
		}
	}
}
