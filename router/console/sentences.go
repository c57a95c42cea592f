package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// sentences are the sentences of the API, which are English, in another language. The English
// sentence is the key: one that was changed has no text until it is translated again, and the
// schema of a broker of another version, or of another maker, never gets the text of a sentence
// that it does not have.
type sentences struct {
	whole    map[string]string
	patterns []pattern
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
	return s, nil
}

func (s *sentences) add(english, text string) {
	if parts := strings.Split(english, argument); len(parts) > 1 {
		s.patterns = append(s.patterns, pattern{parts, text})
	} else {
		s.whole[english] = text
	}
}

// sentence returns a sentence of the API in the language, and whether it is: one without a text
// stays in English. One of two parts, as of a reason and what to do about it, has the texts of both.
func (l *locale) sentence(english string) (text string, ok bool) {
	if l.sentences == nil { // of English
		return english, true
	}
	if text, ok = l.sentences.find(english); ok {
		return text, true
	}
	if first, second, isComposed := strings.Cut(english, ": "); isComposed {
		first, isFirst := l.sentences.find(first)
		second, isSecond := l.sentences.find(second)
		if isFirst && isSecond {
			return l.text("error.composed", first, second), true
		}
	}
	return english, false
}

// find returns the text of a sentence, or of a part of one. Of the patterns that match, that with
// the most text is its.
func (s *sentences) find(english string) (text string, ok bool) {
	if text, ok = s.whole[english]; ok {
		return text, true
	}
	most := 0
	for _, p := range s.patterns {
		size := len(strings.Join(p.parts, ""))
		if arguments := p.match(english); arguments != nil && size > most {
			text, ok, most = fmt.Sprintf(p.text, arguments...), true, size
		}
	}
	return text, ok
}

// match returns the arguments of a sentence, nil if the pattern is not its. An argument is a name or
// a value: one with a sentence in it would leave half of it in English.
func (p pattern) match(sentence string) (arguments []any) {
	rest, ok := strings.CutPrefix(sentence, p.parts[0])
	last := len(p.parts) - 1
	for i := 1; ok && i <= last; i++ {
		argument := rest
		if i < last {
			argument, rest, ok = strings.Cut(rest, p.parts[i])
		} else {
			argument, ok = strings.CutSuffix(rest, p.parts[last])
		}
		ok = ok && !strings.Contains(argument, ": ") && !strings.Contains(argument, "; ")
		arguments = append(arguments, argument)
	}
	if !ok {
		return nil
	}
	return arguments
}
