package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// savedContext is a service that the user has named, and how to sign in to it.
type savedContext struct {
	URL     string `json:"url"`
	Token   string `json:"token,omitempty"`
	CAFile  string `json:"ca_file,omitempty"`
	Project string `json:"project,omitempty"`
	Broker  string `json:"broker,omitempty"`
}

// contexts is the content of the file of contexts.
type contexts struct {
	Current  string                  `json:"current,omitempty"`
	Contexts map[string]savedContext `json:"contexts"`
}

var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// contextsPath returns the path of the file.
func (e *Env) contextsPath() (string, error) {
	if e.ConfigDir == "" {
		return "", errors.New("the user's configuration directory is not known; set HOME or XDG_CONFIG_HOME")
	}
	return filepath.Join(e.ConfigDir, "signalbox", "contexts.json"), nil
}

// loadContexts reads the file. It is empty if there is none, and refused if other users
// can read it: it contains tokens.
func (e *Env) loadContexts() (contexts, error) {
	all := contexts{Contexts: map[string]savedContext{}}
	path, err := e.contextsPath()
	if err != nil {
		return all, err
	}
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return all, fmt.Errorf("%s: %w", path, err)
	}
	if all.Contexts == nil {
		all.Contexts = map[string]savedContext{}
	}
	return all, nil
}

// readPrivate reads a file that only its owner may be able to read.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: other users can access this file, which has a token (mode %#o); run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	return io.ReadAll(f)
}

// saveContexts replaces the file, so that a failure leaves the previous one.
func (e *Env) saveContexts(all contexts) error {
	path, err := e.contextsPath()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replaceFile(path, append(text, '\n'))
}

// replaceFile replaces a file that only its owner may read, so that a failure leaves the
// previous one.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // err is reported
	}
	return err
}

// find returns the context with a name.
func (c contexts) find(name string) (savedContext, error) {
	if found, ok := c.Contexts[name]; ok {
		return found, nil
	}
	known := slices.Sorted(maps.Keys(c.Contexts))
	if len(known) == 0 {
		return savedContext{}, &failure{code: CodeNotFound, err: fmt.Errorf("there is no context %q; \"signalbox context add\" adds one", name)}
	}
	return savedContext{}, &failure{code: CodeNotFound, err: fmt.Errorf("there is no context %q; there are: %s", name, strings.Join(known, ", "))}
}
