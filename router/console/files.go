package console

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io/fs"
)

// packedFiles has the directories locales, templates and static as a ZIP archive, a quarter of their
// size; a test compares them.
//
//go:embed files.zip
var packedFiles []byte

// files returns these directories: locales with one for each language and one for sentences, templates, and
// static. The tests take them as they are in the source, and add a language.
var files = func() (fs.FS, error) {
	return zip.NewReader(bytes.NewReader(packedFiles), int64(len(packedFiles)))
}
