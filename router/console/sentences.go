package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// sentences are the sentences of the API, which are English, in another language. The English
// sentence is the key: one that was changed has no text until it is translated again, and the
// schema of a broker of another version, or of another maker, never gets the text of a sentence
// that it does not have.
type sentences struct {
	whole    map[string]string
	patterns []pattern // those with the most text first
}

// pattern is a sentence with arguments.
type pattern struct {
	parts []string // the English text around the arguments
	text  string   // of the language, with the places of the arguments
}

// argument is the place of an argument in an English sentence.
const argument = "%s"

// loadSentences reads the files locales/sentences/*.json for a language. A sentence without
// texts is the same in all languages, as the name of a protocol is.
func loadSentences(files fs.FS, language string) (*sentences, error) {
	s := &sentences{whole: map[string]string{}}
	paths, err := fs.Glob(files, path.Join("locales", "sentences", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		b, err := fs.ReadFile(files, p)
		if err != nil {
			return nil, err
		}
		var all map[string]map[string]string
		if err := json.Unmarshal(b, &all); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		for english, texts := range all {
			s.add(english, cmp.Or(texts[language], english))
		}
	}
	slices.SortFunc(s.patterns, byText)
	return s, nil
}

// byText puts patterns with more text before those with less, which may match the same.
func byText(a, b pattern) int {
	return cmp.Or(len(strings.Join(b.parts, ""))-len(strings.Join(a.parts, "")), slices.Compare(a.parts, b.parts))
}

func (s *sentences) add(english, text string) {
	if parts := strings.Split(english, argument); len(parts) > 1 {
		s.patterns = append(s.patterns, pattern{parts, text})
	} else {
		s.whole[english] = text
	}
}

// sentence returns a sentence of the API in the language, and whether it is: one without a text
// stays in English.
func (l *locale) sentence(english string) (text string, ok bool) {
	if l.sentences == nil { // of English
		return english, true
	}
	if text, ok := l.sentences.whole[english]; ok {
		return text, true
	}
	for _, p := range l.sentences.patterns {
		if arguments := p.match(english); arguments != nil {
			return fmt.Sprintf(p.text, arguments...), true
		}
	}
	return english, false
}

// match returns the arguments of a sentence, nil if the pattern is not its.
func (p pattern) match(sentence string) (arguments []any) {
	rest, ok := strings.CutPrefix(sentence, p.parts[0])
	if !ok {
		return nil
	}
	last := len(p.parts) - 1
	for _, part := range p.parts[1:last] {
		var argument string
		if argument, rest, ok = strings.Cut(rest, part); !ok {
			return nil
		}
		arguments = append(arguments, argument)
	}
	if rest, ok = strings.CutSuffix(rest, p.parts[last]); !ok {
		return nil
	}
	return append(arguments, rest)
}
