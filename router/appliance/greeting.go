package appliance

import (
	"fmt"
	"io"
)

// Greet returns where everything is and, on the first start, who may log in. The
// generated passwords are shown only where the reader is a person at a terminal:
// elsewhere the output ends up in journals and files, so only the file that keeps
// them is named.
func (a *Appliance) Greet(w io.Writer, terminal bool) {
	fmt.Fprintf(w, "signalbox %s is ready.\n  API   %s  (manual: %s/docs, reference: %s/api/docs)\n", a.program.Version, a.URL, a.URL, a.URL)
	for _, url := range a.Broker {
		fmt.Fprintf(w, "  MQTT  %s\n", url)
	}
	fmt.Fprintf(w, "  data  %s\n", a.cfg.DataDir)
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
