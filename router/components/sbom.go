package components

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/google/uuid"
)

// Program is what the bill of materials is of.
type Program struct {
	Version string
	Date    string // RFC 3339, "" if it is unknown
}

// bom is the part of CycloneDX 1.6 that is used.
type bom struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     bomMetadata `json:"metadata"`
	Components   []bomEntry  `json:"components"`
}

type bomMetadata struct {
	Timestamp string   `json:"timestamp,omitempty"`
	Component bomEntry `json:"component"`
}

type bomEntry struct {
	Type       string        `json:"type"`
	Ref        string        `json:"bom-ref"`
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	Licences   []bomLicence  `json:"licenses"`
	PURL       string        `json:"purl,omitempty"`
	Properties []bomProperty `json:"properties,omitempty"`
}

type bomLicence struct {
	Licence struct {
		ID string `json:"id"`
	} `json:"license"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// WriteSBOM writes the bill of materials in CycloneDX's JSON. The same components give the
// same text.
func WriteSBOM(w io.Writer, p Program, all []Component) error {
	doc := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: bomMetadata{Timestamp: p.Date,
		Component: entry("application", Component{Name: "signalbox", Version: p.Version, Licences: []string{"Apache-2.0"}})}}
	for _, c := range all {
		doc.Components = append(doc.Components, entry("library", c))
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	doc.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, text).URN()
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(doc)
}

// entry returns a component as CycloneDX writes it.
func entry(kind string, c Component) bomEntry {
	e := bomEntry{Type: kind, Ref: c.Name + "@" + c.Version, Name: c.Name, Version: c.Version}
	for _, id := range c.Licences {
		var l bomLicence
		l.Licence.ID = id
		e.Licences = append(e.Licences, l)
	}
	if c.Sum != "" {
		e.PURL = "pkg:golang/" + strings.ToLower(c.Name) + "@" + strings.ReplaceAll(c.Version, "+", "%2B")
		e.Properties = []bomProperty{{Name: "go:sum", Value: c.Sum}}
	}
	return e
}
