package appliance

import (
	"fmt"
	"io"
)

// Greet writes the addresses of the service and, on the first start, the accounts. The
// generated passwords are shown only to a person at a terminal: elsewhere the output is
// stored in journals and files, so only the file with the passwords is named.
func (a *Appliance) Greet(w io.Writer, terminal bool) {
	fmt.Fprintf(w, "signalbox %s is ready.\n  web   %s/ui\n  API   %s  (manual: %s/docs, reference: %s/api/docs)\n", a.program.Version, a.URL, a.URL, a.URL, a.URL)
	for _, url := range a.Broker {
		fmt.Fprintf(w, "  MQTT  %s\n", url)
	}
	fmt.Fprintf(w, "  data  %s\n", a.cfg.DataDir)
	if a.outdated.done != nil {
		fmt.Fprintln(w, "Web and API start when all nodes of the cluster run this release, as they share their data; use another node until then.")
	}
	if len(a.first.lines) == 0 {
		return
	}
	if !terminal {
		fmt.Fprintf(w, "First start. The generated passwords are in %s; delete that file when you have noted them.\n", a.first.path)
		return
	}
	fmt.Fprintf(w, "First start. These passwords are not shown again; they stand in %s until you delete it:\n", a.first.path)
	for _, line := range a.first.lines {
		fmt.Fprint(w, "  ", line)
	}
}
