package console

import (
	"flag"
	"testing"

	"signalbox/handlers/packed/packedtest"
)

// packedDirectories are those in files.zip.zst.
var packedDirectories = []string{"locales", "templates", "static"}

var update = flag.Bool("update", false, "write files.zip.zst anew")

// TestFilesArePacked compares files.zip.zst, which is built in, with the files of which it is made.
func TestFilesArePacked(t *testing.T) {
	t.Parallel()
	packedtest.Check(t, "files.zip.zst", packedtest.Contents(t, sourceFiles, packedDirectories...), *update)
}
