package console

import (
	_ "embed"
	"io/fs"
	"sync"

	"signalbox/handlers/packed"
)

// packedFiles has the directories locales, templates and static, a fifth of their size; a test compares them.
//
//go:embed files.zip.zst
var packedFiles []byte

// files returns these directories: locales with one for each language and one for sentences, templates, and
// static. The tests take them as they are in the source, and add a language.
var files = sync.OnceValues(func() (fs.FS, error) { return packed.Open(packedFiles) })
