// Package zones has the time zones of the program: those of the machine, and where it has no list of them, the list of
// the Go distribution. It is that of time/tzdata, which is seven times larger because it is not compressed.
package zones

import (
	"archive/zip"
	_ "embed"
	"io/fs"
	"strings"
	"sync"
	"time"

	"signalbox/handlers/packed"
)

// packedZones has lib/time/zoneinfo.zip of the Go distribution; a test compares them.
//
//go:embed zones.zip.zst
var packedZones []byte

var builtIn = sync.OnceValues(func() (*zip.Reader, error) { return packed.Open(packedZones) })

// Load returns the time zone with a name, like time.LoadLocation, on any machine.
func Load(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil {
		if own, ownErr := loadBuiltIn(name); ownErr == nil {
			return own, nil
		}
	}
	return zone, err
}

func loadBuiltIn(name string) (*time.Location, error) {
	files, err := builtIn()
	if err != nil {
		return nil, err
	}
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, b)
}

// SetLocal sets the zone of local times, such as those of the log, to the value of the variable TZ where package time has
// fallen back to UTC, as it does on a machine without a list of zones. It must be called before any other goroutine runs.
func SetLocal(tz string) {
	if tz == "" || time.Local.String() != "UTC" {
		return
	}
	if zone, err := loadBuiltIn(strings.TrimPrefix(tz, ":")); err == nil {
		time.Local = zone
	}
}
