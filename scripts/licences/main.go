// Command licences writes the licences of all modules that the program has in it, on any
// of its platforms, to router/components/licences.json.gz. It runs in the root of the
// module, after a dependency was added or updated.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"signalbox/router/components"
)

// target is the file that is embedded in the program.
const target = "router/components/licences.json.gz"

func main() {
	index, err := collect(".")
	if err == nil {
		err = write(target, index)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// write writes an index as the program reads it.
func write(name string, index components.Index) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	if err := errors.Join(out.Encode(index), w.Close()); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644) //nolint:gosec // it is a part of the source
}

// source is a component, with the text of each file of its licence.
type source struct {
	name  string
	texts []string
}

// collect returns the licences of all components of the module at root.
func collect(root string) (index components.Index, err error) {
	sources, err := modules(root)
	if err != nil {
		return index, err
	}
	own, err := os.ReadFile(filepath.Join(root, "LICENSE")) // the same as that of Swagger UI, which its module lacks
	if err != nil {
		return index, err
	}
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return index, fmt.Errorf("find the Go distribution: %w", err)
	}
	goLicence, err := readTexts(strings.TrimSpace(string(goRoot)))
	if err != nil {
		return index, err
	}
	sources = append(sources, source{"std", goLicence},
		source{"swagger-ui", []string{"Copyright SmartBear Software Inc.", clean(own)}})
	return indexOf(sources)
}

// systems are the operating systems whose programs have different modules.
var systems = []string{"linux", "windows", "darwin"}

// modules returns the modules that the program has in it on any system.
func modules(root string) (all []source, err error) {
	dirs := map[string]string{} // by path
	for _, system := range systems {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", ".")
		cmd.Dir, cmd.Stderr = root, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOOS="+system)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the modules for %s: %w", system, err)
		}
		for line := range strings.Lines(string(out)) {
			if path, dir, found := strings.Cut(strings.TrimSpace(line), " "); found {
				dirs[path] = dir
			}
		}
	}
	for path, dir := range dirs {
		texts, err := readTexts(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, source{path, texts})
	}
	return all, nil
}

// licenceFile matches the names of files that must be passed on with the program.
var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|copyright|notice|patents|sqlite-licen[sc]e)`)

// readTexts returns the files of the licence in a directory.
func readTexts(dir string) (texts []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, clean(text))
	}
	return texts, nil
}

// clean returns a text with the line ends of Unix, without space at the ends of lines.
func clean(text []byte) string {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

// indexOf identifies the licences. Texts of the same licence stand together, which
// compresses well.
func indexOf(sources []source) (index components.Index, err error) {
	index.Components = map[string]components.Licence{}
	names := map[string][]string{} // of licences, by their texts
	for _, s := range sources {
		for _, text := range s.texts {
			names[text] = identify(text)
		}
	}
	for text := range names {
		index.Texts = append(index.Texts, text)
	}
	slices.SortFunc(index.Texts, func(a, b string) int {
		return cmp.Or(slices.Compare(names[a], names[b]), strings.Compare(a, b))
	})
	for _, s := range sources {
		var l components.Licence
		for _, text := range s.texts {
			l.Texts = append(l.Texts, slices.Index(index.Texts, text))
			l.Licences = append(l.Licences, names[text]...)
		}
		if len(l.Licences) == 0 {
			return index, fmt.Errorf("%s: no licence is recognised; add its text to identify", s.name)
		}
		slices.Sort(l.Licences)
		l.Licences = slices.Compact(l.Licences)
		index.Components[s.name] = l
	}
	return index, nil
}
