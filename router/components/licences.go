package components

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// compressed is an Index as JSON, which scripts/licences writes.
//
//go:embed licences.json.gz
var compressed []byte

// Index has the licences of all modules that a program for any platform has in it.
type Index struct {
	Components map[string]Licence
	Texts      []string // each different one once
}

// Licence is the licence of a component.
type Licence struct {
	Licences []string // SPDX identifiers
	Texts    []int    // in Index.Texts: the files of the licence, notices included
}

// readLicences returns the index that is built in.
func readLicences() (l Index, err error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err == nil {
		err = json.NewDecoder(r).Decode(&l)
	}
	return l, err
}

// WriteLicences writes each text of a licence, after the components that it is for.
func WriteLicences(w io.Writer, all []Component) error {
	l, err := readLicences()
	if err != nil {
		return err
	}
	for i, text := range l.Texts {
		var names []string
		for _, c := range all {
			if slices.Contains(l.Components[c.Name].Texts, i) {
				names = append(names, fmt.Sprintf("%s %s (%s)", c.Name, c.Version, strings.Join(c.Licences, ", ")))
			}
		}
		if len(names) == 0 {
			continue // on another platform
		}
		if _, err := fmt.Fprintf(w, "%s\n\n%s\n%s\n", strings.Join(names, "\n"), text, strings.Repeat("-", 80)); err != nil {
			return err
		}
	}
	return nil
}
