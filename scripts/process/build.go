package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"signalbox/scripts/suite"
)

// Program is the path of the program under test, once Main has built it.
var Program string

// programVariable is the environment variable that names a program to test instead
// of the one that is built.
const programVariable = "SIGNALBOX_TEST_PROGRAM"

// Main builds the program as it is shipped and runs the tests of a package, as
// TestMain does. It fails where a goroutine of the tests is left, after clean was
// called.
func Main(m *testing.M, clean ...func() error) {
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	suite.Main(m, append(clean, func() error { return os.RemoveAll(dir) })...)
}

// build leaves the program in a directory that every user may enter, so that a
// test may run it as another one.
func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "signalbox-test"); err != nil {
		return "", err
	}
	if Program = os.Getenv(programVariable); Program != "" {
		return dir, nil
	}
	Program = filepath.Join(dir, "signalbox")
	module, err := moduleDir()
	cmd := exec.Command(filepath.Join(module, "scripts", "build"))
	cmd.Env = append(os.Environ(), "OUT="+Program)
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil { //nolint:gosec // nothing in it is secret
		return "", err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return dir, nil
}

// moduleDir returns the directory of go.mod, in or above the working directory.
func moduleDir() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no go.mod above the working directory")
		}
	}
	return "", err
}
