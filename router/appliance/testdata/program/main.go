// Command program is what the tests of an upgrade install. What it prints as its version is at
// the end of its file.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	_, version, _ := strings.Cut(string(text[len(text)-200:]), "\n")
	if os.Args[1] == "version" {
		fmt.Println(version)
	} else if strings.Contains(version, "v9.") {
		fmt.Fprintln(os.Stderr, "this version cannot migrate")
		os.Exit(1)
	}
}
