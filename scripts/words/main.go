// Command words finds words that are not the field's in comments, identifiers and
// Markdown, and fails if there are any. It runs in the root of the module.
//
// Each line of banned.txt is a word or a phrase; "WORD DIRECTORY" in allowed.txt is
// an exception, for that directory without those below it.
package main

import (
	_ "embed"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

var (
	//go:embed banned.txt
	banned string
	//go:embed allowed.txt
	allowed string
)

func main() {
	failed, err := check(os.DirFS("."), lines(banned), lines(allowed), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// lines returns the lines of a list without comments.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// check writes what it finds to w. It reports whether there is anything.
func check(root fs.FS, banned, allowed []string, w io.Writer) (failed bool, err error) {
	phrases, exceptions := index(banned), set(allowed)
	err = walk(root, func(name string) error {
		text, err := prose(root, name)
		if err != nil {
			return err
		}
		for _, f := range phrases.findAll(text) {
			if !exceptions[f.phrase+" "+path.Dir(name)] {
				failed = true
				fmt.Fprintf(w, "%s:%d: %q\n", name, f.line, f.phrase)
			}
		}
		return nil
	})
	return failed, err
}

// walk calls f for each file of the project's own.
func walk(root fs.FS, f func(name string) error) error {
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return f(name)
		case d.Name() == "testdata", name == "data", name == "scripts/words", name != "." && d.Name()[0] == '.':
			return fs.SkipDir
		}
		return nil
	})
}

func set(all []string) map[string]bool {
	m := make(map[string]bool, len(all))
	for _, s := range all {
		m[s] = true
	}
	return m
}

// phrases are the banned ones by their first word.
type phrases map[string][]string

func index(banned []string) phrases {
	all := phrases{}
	for _, b := range banned {
		first, _, _ := strings.Cut(b, " ")
		all[first] = append(all[first], b)
	}
	return all
}

// finding is a banned phrase and its line.
type finding struct {
	phrase string
	line   int
}

// findAll returns every banned phrase of the passages of a file.
func (p phrases) findAll(text []passage) (all []finding) {
	for _, in := range text {
		all = append(all, p.find(in)...)
	}
	return all
}

// find returns every banned phrase of a passage.
func (p phrases) find(in passage) (all []finding) {
	words := in.words()
	for i, w := range words {
		for _, phrase := range p[w.text] {
			if begins(words[i:], phrase) {
				all = append(all, finding{phrase, w.line})
			}
		}
	}
	return all
}

func begins(words []passage, phrase string) bool {
	want := strings.Fields(phrase)
	if len(want) > len(words) {
		return false
	}
	for i, w := range want {
		if words[i].text != w {
			return false
		}
	}
	return true
}

// passage is a piece of a file that is checked.
type passage struct {
	line int
	text string
}

// prose returns the comments and identifiers of a Go file, and the whole of a
// Markdown file.
func prose(root fs.FS, name string) (all []passage, err error) {
	ext := path.Ext(name)
	if ext != ".go" && ext != ".md" {
		return nil, nil
	}
	text, err := fs.ReadFile(root, name)
	if err != nil || ext == ".md" {
		return []passage{{1, string(text)}}, err
	}
	file := token.NewFileSet().AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		switch line := file.Line(pos); {
		case tok == token.EOF:
			return all, nil
		case tok == token.IDENT:
			all = append(all, passage{line, literal})
		case tok == token.COMMENT && len(all) > 0 && strings.HasPrefix(all[len(all)-1].text, "//") && all[len(all)-1].line+strings.Count(all[len(all)-1].text, "\n")+1 == line:
			all[len(all)-1].text += "\n" + literal // so that a phrase may span lines
		case tok == token.COMMENT:
			all = append(all, passage{line, literal})
		}
	}
}

// words returns the words of a passage in lower case, those within identifiers
// too. What ends a clause stands among them, so that no phrase goes beyond it.
func (p passage) words() (all []passage) {
	line, start := p.line, 0
	end := func(i int) {
		if i > start {
			all = append(all, passage{line, strings.ToLower(p.text[start:i])})
		}
		start = i + 1
	}
	for i := range len(p.text) {
		c := p.text[i]
		switch {
		case 'A' <= c && c <= 'Z':
			if i > start && (p.text[i-1] < 'A' || p.text[i-1] > 'Z') {
				end(i)
				start = i
			}
		case c < 'a' || c > 'z':
			end(i)
			if strings.IndexByte(".,:;()", c) >= 0 {
				all = append(all, passage{line, string(c)})
			}
			if c == '\n' {
				line++
			}
		}
	}
	end(len(p.text))
	return all
}
