// Command sbom writes the bill of materials of a program for any platform, as the program
// itself does with "version --sbom", or its licences.
//
//	sbom [-version VERSION] [-date TIME] [-licenses] FILE
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"

	"signalbox/router/components"
)

func main() {
	var p components.Program
	flag.StringVar(&p.Version, "version", "", "the version of the program")
	flag.StringVar(&p.Date, "date", "", "the time of the version")
	licences := flag.Bool("licenses", false, "write the licences instead")
	flag.Parse()
	if err := write(os.Stdout, flag.Arg(0), p, *licences); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, file string, p components.Program, licences bool) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	all, err := components.Of(info)
	if err != nil {
		return err
	}
	if licences {
		return components.WriteLicences(w, all)
	}
	return components.WriteSBOM(w, p, all)
}
