package console

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"strings"
	"testing/fstest"
)

// PseudoLanguage is a language of the tests only. It is English, longer, with other letters and between
// brackets: what a page shows without them comes from no catalogue.
const PseudoLanguage = "en-XA"

// sourceFiles has the files as they are in the source, testFiles the pseudo language, too.
var (
	sourceFiles = os.DirFS(".")
	testFiles   = fstest.MapFS{}
)

func init() {
	for _, dir := range packedDirectories {
		err := fs.WalkDir(sourceFiles, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(sourceFiles, name)
			if path.Base(path.Dir(name)) == "sentences" {
				b = disguiseSentences(b)
			}
			testFiles[name] = &fstest.MapFile{Data: b}
			return err
		})
		if err != nil {
			panic(err)
		}
	}
	english, err := loadLanguage(sourceFiles, "en")
	if err != nil {
		panic(err)
	}
	pseudo := map[string]any{}
	for key, t := range english {
		if pseudo[key] = disguise(t.plain); t.forms != nil {
			forms := maps.Clone(t.forms)
			for form, text := range forms {
				forms[form] = disguise(text)
			}
			pseudo[key] = forms
		}
	}
	b, err := json.Marshal(pseudo)
	if err != nil {
		panic(err)
	}
	testFiles["locales/"+PseudoLanguage+"/all.json"] = &fstest.MapFile{Data: b}
	files = func() (fs.FS, error) { return testFiles, nil }
	languageTags = append(languageTags, PseudoLanguage)
}

// disguiseSentences adds the pseudo language to the sentences of a file.
func disguiseSentences(file []byte) []byte {
	var all map[string]map[string]string
	if err := json.Unmarshal(file, &all); err != nil {
		panic(err)
	}
	for english, texts := range all {
		texts[PseudoLanguage] = disguise(english)
	}
	file, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return file
}

// otherLetters has a letter with an accent for some of those of English.
var otherLetters = strings.NewReplacer("a", "á", "c", "ç", "e", "ê", "i", "ï", "n", "ñ", "o", "ö", "u", "ü", "y", "ý", "A", "Å", "E", "É", "O", "Ø", "U", "Û")

// kept is what a text in another language has too: arguments, and what is in capitals, is code or follows a slash.
var kept = regexp.MustCompile(`%%|%(\[\d+\])?[a-z]|[$/]?[A-Z_]{2,}\S*|\S*[_/@:=$]\S*`)

// disguise returns a text in the pseudo language.
func disguise(text string) string {
	var b strings.Builder
	b.WriteString("⟦")
	end := 0
	for _, at := range kept.FindAllStringIndex(text, -1) {
		b.WriteString(otherLetters.Replace(text[end:at[0]]) + text[at[0]:at[1]])
		end = at[1]
	}
	b.WriteString(otherLetters.Replace(text[end:]) + strings.Repeat(" ~~", len(text)/9+1) + "⟧")
	return b.String()
}
