package main

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/router/components"
)

// TestLicencesAreCurrent compares the licences that are built in with those of the modules.
func TestLicencesAreCurrent(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	want, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(root, target))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	var got components.Index
	r, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(r).Decode(&got)
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s is out of date; run \"go run ./scripts/licences\": %v\n(-want +got):\n%s", target, err, diff)
	}
}

// TestIdentify recognises licences, several in one text too, also those that are refused.
func TestIdentify(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want []string
	}{
		{"Copyright (c) 2020 A. Author", nil},
		{"Permission is hereby granted, free of charge, to any person ... in the Software without\n restriction", []string{"MIT"}},
		{"Apache License\n  Version 2.0, January 2004", []string{"Apache-2.0"}},
		{"Redistribution and use in source and binary forms ... reproduce the above copyright notice", []string{"BSD-2-Clause"}},
		{"Redistribution and use in source and binary forms ... reproduce the above copyright notice ... endorse or promote products", []string{"BSD-3-Clause"}},
		{"GNU GENERAL PUBLIC LICENSE\n  Version 3, 29 June 2007", []string{"GPL-3.0"}},
		{"GNU AFFERO GENERAL PUBLIC LICENSE\n  Version 3, 19 November 2007", []string{"AGPL-3.0"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, identify(tt.text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
	}
}
