package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestManPage has every command, and the flags that belong to it. Nothing in the texts is taken for
// a request to the formatter, which groff confirms where it is installed.
func TestManPage(t *testing.T) {
	t.Parallel()
	u := &terminal{t: t}
	page := u.done("man")
	root, err := commands(nil, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			check(c)
			if n++; !c.HasSubCommands() && !strings.Contains(page, "\n.SS "+strings.ReplaceAll(c.CommandPath(), "-", `\-`)) {
				t.Errorf("the page lacks %q", c.CommandPath())
			}
		}
	}
	check(root)
	for _, want := range []string{"\n.SS signalbox client create USERNAME\nCreate a client.\n", "\n.B \\-\\-role name\n", "\n.SH COMMON OPTIONS\n", "\n.B \\-o, \\-\\-output FORMAT\n", "\n.SH EXIT STATUS\n"} {
		if strings.Count(page, want) == 0 {
			t.Errorf("the page lacks %q", want)
		}
	}
	if servers := strings.Count(page, ".B \\-\\-server URL\n"); n < 150 || servers != 1 || strings.Contains(page, "--") || strings.Contains(page, ".listen string") {
		t.Errorf("%d commands, %d descriptions of --server, or hyphens or keys of the configuration as options", n, servers)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return // scripts/packagetest checks the page with lintian
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
