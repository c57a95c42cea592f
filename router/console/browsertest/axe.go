package browsertest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"signalbox/scripts/process"
)

// axeFile names the file of axe-core and its checksum, for scripts/install too.
//
//go:embed axe.sha256
var axeFile string

// axeSource returns the source of axe-core, which scripts/install fetches.
var axeSource = sync.OnceValues(func() (string, error) {
	sum, name, _ := strings.Cut(strings.TrimSpace(axeFile), "  ")
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	source, err := os.ReadFile(filepath.Join(cache, "signalbox-tests", name))
	if err != nil {
		return "", err
	}
	if got := sha256.Sum256(source); hex.EncodeToString(got[:]) != sum {
		return "", fmt.Errorf("%s does not have the expected checksum; run scripts/install", name)
	}
	return string(source), nil
})

// violation is a rule of axe-core that a page violates.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		Target         []any
		HTML           string
		FailureSummary string
	}
}

// axeRun checks the page by the rules of WCAG 2.0 to 2.2, levels A and AA. The rule on
// the size of targets is one of them, but off unless it is named.
const axeRun = `axe.run(document, {
	runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22a', 'wcag22aa']},
	rules: {'target-size': {enabled: true}},
	resultTypes: ['violations'],
}).then(result => result.violations)`

// CheckAccessibility fails the test for each element that violates a rule of axe-core,
// which needs a tab that runs scripts.
func (p *Page) CheckAccessibility() {
	p.t.Helper()
	source, err := axeSource()
	if errors.Is(err, fs.ErrNotExist) {
		process.Missing(p.t, "axe-core is not installed (scripts/install fetches it)")
	}
	if err != nil {
		p.t.Fatal("read axe-core: ", err)
	}
	var loaded bool
	if p.inspect("'axe' in globalThis", &loaded); !loaded {
		p.inspect(source+"\n;0", nil)
	}
	p.settle()
	var found []violation
	p.inspect(axeRun, &found)
	for _, v := range found {
		for _, node := range v.Nodes {
			p.t.Errorf("%s%s (%s): %s\n\t%v %s\n\t%s", p.tag, v.ID, v.Impact, v.Help, node.Target, node.HTML,
				strings.ReplaceAll(node.FailureSummary, "\n", "\n\t"))
		}
	}
}
