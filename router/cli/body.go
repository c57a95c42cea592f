package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"signalbox/router"
)

// maxFile bounds a file that is read as one value, in bytes: the API accepts no larger
// body.
const maxFile = 64 << 20

// body returns the body of the request, nil if there is none.
func (c *command) body() ([]byte, error) {
	if c.op.Body == nil {
		return nil, nil
	}
	var base any
	if len(c.files) > 0 {
		text, err := c.readFile(c.files[0], "--file")
		if err != nil {
			return nil, err
		}
		if json.Valid(text) && !c.changesBody() {
			return bytes.TrimSpace(text), nil
		}
		if base, err = readDocument(text); err != nil {
			return nil, usage("%s: %w", c.files[0], err)
		}
	}
	whole, err := c.compose(base)
	if err != nil {
		return nil, err
	}
	if whole == nil {
		if c.op.Body.Required {
			return nil, usage("the body is missing; give it with -f")
		}
		return nil, nil
	}
	return encode(whole)
}

// encode returns a value as JSON.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// changesBody reports whether the command line adds to the body of the file.
func (c *command) changesBody() bool {
	for _, in := range c.bodyInputs() {
		if in.given || in.file != "" || in.ask {
			return true
		}
	}
	return len(c.sets) > 0
}

// bodyInputs are the arguments and flags that are members of the body.
func (c *command) bodyInputs() []*input {
	var all []*input
	for _, list := range [][]*input{c.arguments, c.flags} {
		for _, in := range list {
			if in.in == inBody {
				all = append(all, in)
			}
		}
	}
	return all
}

// compose adds the members of the command line to the body of a file, nil for none.
func (c *command) compose(base any) (any, error) {
	if c.op.Body.Kind != router.Object {
		return c.applySets(base)
	}
	object, ok := base.(map[string]any)
	if base != nil && !ok {
		return nil, usage("the body must be an object")
	}
	if object == nil {
		object = map[string]any{}
	}
	for _, in := range c.bodyInputs() {
		if !in.given {
			continue
		}
		if _, inFile := object[in.field.Name]; inFile && in.flag != "" && !in.explicit() {
			continue
		}
		v, err := in.whole()
		if err != nil {
			return nil, usage("--%s: %w", in.flag, err)
		}
		object[in.field.Name] = v
	}
	whole, err := c.applySets(object)
	if err != nil {
		return nil, err
	}
	return c.complete(whole.(map[string]any))
}

// explicit reports whether a value is from the command line and no default of the
// command.
func (i *input) explicit() bool { return !i.preset }

// complete refuses a body without a required member. It returns nil for an empty body
// that may be missing.
func (c *command) complete(object map[string]any) (any, error) {
	for _, in := range c.bodyInputs() {
		if _, ok := object[in.field.Name]; ok || !in.field.Required {
			continue
		}
		if in.flag == "" {
			return nil, usage("%s is missing", in.placeholder())
		}
		if isSecret(in.field) {
			return nil, usage("--%s-file or --ask-%s is required", in.flag, in.flag)
		}
		return nil, usage("--%s is required", in.flag)
	}
	if len(object) == 0 && !c.op.Body.Required {
		return nil, nil
	}
	return object, nil
}

func (c *command) applySets(whole any) (any, error) {
	for _, argument := range c.sets {
		path, value, err := parseSet(argument)
		if err != nil {
			return nil, UsageError{err}
		}
		if whole, err = setAt(whole, path, value); err != nil {
			return nil, usage("--set %s: %w", argument, err)
		}
	}
	return whole, nil
}

// readFile returns the content of a file, or of standard input for "-", which only one
// flag may read.
func (c *command) readFile(name, flag string) ([]byte, error) {
	r, err := c.open(name, flag)
	if err != nil {
		return nil, err
	}
	return readAll(r, name, maxFile)
}

func (c *command) open(name, flag string) (io.ReadCloser, error) {
	if name == "-" {
		if c.standardIn != "" {
			return nil, usage("%s and %s cannot both read standard input", c.standardIn, flag)
		}
		c.standardIn = flag
	}
	return c.tree.env.open(name, flag)
}

// open opens a file that a flag names, or standard input for "-".
func (e *Env) open(name, flag string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(e.Stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usage("--%s: %w", strings.TrimPrefix(flag, "--"), err)
	}
	return f, nil
}

// readAll reads a file of at most so many bytes and closes it.
func readAll(r io.ReadCloser, name string, most int64) ([]byte, error) {
	defer r.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		err = usage("%s: has more than %d bytes", name, most)
	}
	return text, err
}

// withoutLineEnd returns a text without the end of its last line.
func withoutLineEnd(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// readSecrets reads the secrets that were named on the command line, and asks for those
// that are required.
func (c *command) readSecrets(ask func(prompt string) (string, error)) error {
	for _, in := range c.bodyInputs() {
		if !isSecret(in.field) || in.given {
			continue
		}
		text := ""
		var err error
		switch {
		case in.file != "":
			var content []byte
			content, err = c.readFile(in.file, "--"+in.flag+"-file")
			text = string(content)
			if in.field.Name != "client_key" {
				text = withoutLineEnd(text)
			}
		case in.ask || in.field.Required && len(c.files) == 0 && c.tree.env.Terminal(c.tree.env.Stdin):
			text, err = ask(fmt.Sprintf("%s: ", strings.ReplaceAll(in.flag, "-", " ")))
		default:
			continue
		}
		if err != nil {
			return err
		}
		in.texts, in.given = []string{text}, true
	}
	return nil
}
