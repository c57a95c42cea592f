package main

import (
	"regexp"
	"slices"
	"strings"
)

// phrases are what the texts of licences are recognised by: all of those of a line.
var phrases = []struct {
	id   string // SPDX identifier
	want []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0, january 2004"}},
	{"Apache-2.0", []string{"licensed under the apache license, version 2.0"}},
	{"MPL-2.0", []string{"mozilla public license", "version 2.0"}},
	{"EPL-2.0", []string{"eclipse public license - v 2.0"}},
	{"BSD-3-Clause", []string{"spdx-license-identifier: epl-2.0 or bsd-3-clause"}},
	{"GPL-2.0", []string{"gnu general public license", "version 2, june 1991"}},
	{"GPL-3.0", []string{"general public license", "version 3, 29 june 2007"}}, // or its lesser form
	{"LGPL-2.1", []string{"gnu lesser general public license", "version 2.1, february 1999"}},
	{"AGPL-3.0", []string{"gnu affero general public license", "version 3, 19 november 2007"}},
	{"BSD-3-Clause", []string{bsd, "endorse or promote products"}},
	{"BSD-2-Clause", []string{bsd, "reproduce the above copyright notice"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose"}},
	{"ISC", []string{"permission to use, copy, modify, and distribute this software for any purpose"}},
	{"MIT", []string{"permission is hereby granted, free of charge", "without restriction"}},
	{"blessing", []string{"sqlite", "dedicated to the public domain by the authors"}},
	{"CC0-1.0", []string{"cc0 1.0 universal"}},
	{"Unlicense", []string{"this is free and unencumbered software released into the public domain"}},
}

// bsd begins each of the BSD licences.
const bsd = "redistribution and use in source and binary forms"

var space = regexp.MustCompile(`\s+`)

// identify returns the SPDX identifiers of the licences in a text, none for a text such as a
// notice. Those that are not free of obligations for the whole program are recognised too,
// so that a test refuses them.
func identify(text string) (ids []string) {
	text = strings.ToLower(space.ReplaceAllString(text, " "))
	missing := func(phrase string) bool { return !strings.Contains(text, phrase) }
	for _, p := range phrases {
		known := slices.Contains(ids, p.id) || p.id == "BSD-2-Clause" && slices.Contains(ids, "BSD-3-Clause")
		if !known && !slices.ContainsFunc(p.want, missing) {
			ids = append(ids, p.id)
		}
	}
	return ids
}
