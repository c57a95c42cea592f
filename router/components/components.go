// Package components lists what the program is composed of: the modules that are linked
// into it, as the Go linker has recorded them, with their licences. It writes the list as
// a software bill of materials, and the texts of the licences.
//
// It must not import any other package of this module than router/swaggerui.
package components

import (
	"fmt"
	"runtime/debug"

	"signalbox/router/swaggerui"
)

// Component is a part of the program that others have written.
type Component struct {
	Name     string // of a module, its path
	Version  string
	Sum      string   // of a module, as in go.sum
	Licences []string // SPDX identifiers
}

// The components that are not modules.
const (
	standardLibrary = "std"
	swaggerUI       = "swagger-ui"
)

// Of returns the components of a program. It returns an error if the licence of one is
// unknown.
func Of(program *debug.BuildInfo) ([]Component, error) {
	l, err := readLicences()
	if err != nil {
		return nil, err
	}
	all := []Component{{Name: standardLibrary, Version: program.GoVersion}, {Name: swaggerUI, Version: swaggerui.Version}}
	for _, m := range program.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, Component{Name: m.Path, Version: m.Version, Sum: m.Sum})
	}
	for i, c := range all {
		of, known := l.Components[c.Name]
		if !known {
			return nil, fmt.Errorf("the licence of %s is not built in; \"go run ./scripts/licences\" in the source adds it", c.Name)
		}
		all[i].Licences = of.Licences
	}
	return all, nil
}
