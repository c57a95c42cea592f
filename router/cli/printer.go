package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"signalbox/router"
)

// printer prints responses.
type printer struct {
	w         io.Writer
	format    string
	columns   []string
	header    bool
	operation string
	schema    *router.Schema // of an entry; nil if it is not known

	count int // entries that were printed
	table *table

	single bool // the response is one value, not a list
}

// response prints a JSON response: a list by its entries, as they arrive.
func (p *printer) response(r io.Reader) error {
	if p.format == asJSON {
		return p.verbatim(r)
	}
	in := bufio.NewReader(r)
	if first, err := firstByte(in); err != nil || first != '[' {
		return errors.Join(err, p.value(in))
	}
	d := json.NewDecoder(in)
	if _, err := d.Token(); err != nil {
		return err
	}
	return errors.Join(p.entries(d), p.finish())
}

// verbatim copies a response, and counts the entries of a list. A newline follows it.
func (p *printer) verbatim(r io.Reader) error {
	counted := &entryCounter{}
	if _, err := io.Copy(p.w, io.TeeReader(r, counted)); err != nil {
		return err
	}
	p.count = counted.entries
	_, err := io.WriteString(p.w, "\n")
	return err
}

// firstByte returns the first byte of a response.
func firstByte(in *bufio.Reader) (byte, error) {
	b, err := in.Peek(1)
	if err != nil {
		return 0, fmt.Errorf("read the response: %w", err)
	}
	return b[0], nil
}

// entries prints the entries of a list.
func (p *printer) entries(d *json.Decoder) error {
	for d.More() {
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return err
		}
		if err := p.entry(one); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// value prints a response that is no list. A page of a list is printed as one.
func (p *printer) value(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var page struct {
		Data []json.RawMessage `json:"data"`
		Page *json.Number      `json:"page"`

		Events []json.RawMessage `json:"events"` // of the audit log, which is paged by the number of a row
		Next   *json.Number      `json:"next"`
	}
	switch valid := json.Unmarshal(text, &page) == nil; {
	case valid && page.Data != nil && page.Page != nil:
		return p.page(page.Data)
	case valid && page.Events != nil && page.Next != nil && p.format != asJSON:
		return p.page(page.Events)
	}
	p.single = true
	if p.format != asTable || len(p.columns) > 0 {
		return errors.Join(p.entry(text), p.finish())
	}
	return p.properties(text)
}

// page prints the entries of a numbered page.
func (p *printer) page(entries []json.RawMessage) error {
	for _, one := range entries {
		if err := p.entry(one); err != nil {
			return err
		}
	}
	return p.finish()
}

// entry prints one entry of a list.
func (p *printer) entry(text json.RawMessage) error {
	p.count++
	switch p.format {
	case asTable:
		return p.row(text)
	case asYAML:
		return p.yaml(text)
	case asNames:
		return p.line(p.nameOfEntry(text))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return err
	}
	return p.line(b.String())
}

func (p *printer) line(text string) error {
	_, err := io.WriteString(p.w, text+"\n")
	return err
}

// yaml prints an entry as an entry of a sequence.
func (p *printer) yaml(text json.RawMessage) error {
	if !p.single {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	out, err := yamlText(text)
	if err != nil {
		return err
	}
	_, err = p.w.Write(out)
	return err
}

// yamlText returns a JSON value as YAML, with its members in their order.
func yamlText(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(node)
}

// row prints an entry as a row of the table.
func (p *printer) row(text json.RawMessage) error {
	value, err := decodeJSON(text)
	if err != nil {
		return err
	}
	return p.add(value)
}

func (p *printer) add(value any) error {
	if p.table == nil {
		p.table = newTable(p.w, p.chooseColumns(value), p.header)
	}
	p.convertTimes(value)
	return p.table.add(value)
}

// convertTimes replaces the members of an entry that are times in milliseconds by texts, and
// by "" if there was none yet.
func (p *printer) convertTimes(entry any) {
	object, ok := entry.(map[string]any)
	if !ok || p.schema == nil {
		return
	}
	for _, m := range p.schema.Members {
		number, _ := object[m.Name].(json.Number)
		ms, err := number.Int64()
		if err != nil || m.Format != router.FormatEpochMs {
			continue
		}
		object[m.Name] = ""
		if ms != 0 {
			object[m.Name] = time.UnixMilli(ms).UTC().Format(time.RFC3339)
		}
	}
}

// finish prints what is left of the table, or its header if it has no rows.
func (p *printer) finish() error {
	if p.format != asTable {
		return nil
	}
	if p.table == nil {
		p.table = newTable(p.w, p.chooseColumns(nil), p.header)
	}
	return p.table.flush()
}

// properties prints an object with one member per line, and after them each list of objects as
// a table with the name of the member above it.
func (p *printer) properties(text []byte) error {
	value, err := decodeJSON(text)
	if err != nil {
		return err
	}
	p.count++
	object, ok := value.(map[string]any)
	if !ok {
		return p.line(cell(value))
	}
	p.convertTimes(object)
	t := newTable(p.w, nil, false)
	var inner []string
	for _, name := range p.memberNames(object) {
		switch v, present := object[name]; {
		case isObjects(v):
			inner = append(inner, name)
		case present:
			t.cells(name, cell(v))
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, name := range inner {
		if err := p.innerTable(name, object[name].([]any)); err != nil {
			return err
		}
	}
	return nil
}

// isObjects reports whether a value is a list of objects with at least one entry.
func isObjects(value any) bool {
	list, _ := value.([]any)
	if len(list) == 0 {
		return false
	}
	_, ok := list[0].(map[string]any)
	return ok
}

// innerTable prints a list within an object.
func (p *printer) innerTable(name string, list []any) error {
	inner := &printer{w: p.w, format: asTable, header: p.header, operation: p.operation + "." + name}
	if p.schema != nil {
		if i := slices.IndexFunc(p.schema.Members, func(m router.Field) bool { return m.Name == name }); i >= 0 {
			inner.schema = p.schema.Members[i].Elem
		}
	}
	if err := p.line("\n" + printable(name) + ":"); err != nil {
		return err
	}
	for _, entry := range list {
		if err := inner.add(entry); err != nil {
			return err
		}
	}
	return inner.finish()
}

// parts prints the response of an operation on several objects. It fails if one of them
// failed.
func (p *printer) parts(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := p.response(bytes.NewReader(text)); err != nil {
		return err
	}
	var all []struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	failed := 0
	for _, one := range all {
		if one.Status >= 400 {
			failed++
		}
	}
	if failed > 0 {
		return &failure{code: CodePartly, err: fmt.Errorf("%d of %d failed", failed, len(all))}
	}
	return nil
}

// events prints the events of a stream as they arrive: their data, in the table after the
// type.
func (p *printer) events(r io.Reader) error { return readEvents(r, p.event) }

func (p *printer) event(kind, data string) error {
	switch p.format {
	case asTable:
		return p.line(printable(kind) + "  " + printable(data))
	case asYAML, asNames:
		return p.entry(json.RawMessage(data))
	}
	return p.line(data)
}

// entryCounter counts the entries of a JSON list that is written to it.
type entryCounter struct {
	entries       int
	depth         int
	text, escaped bool
	open          bool // an entry of the list has begun
}

// Write counts; it never fails.
func (c *entryCounter) Write(b []byte) (int, error) {
	for _, x := range b {
		c.next(x)
	}
	return len(b), nil
}

func (c *entryCounter) next(x byte) {
	if c.depth == 1 && !c.open && strings.IndexByte("] \n\r\t", x) < 0 {
		c.entries, c.open = c.entries+1, true
	}
	if c.text {
		c.escaped, c.text = !c.escaped && x == '\\', c.escaped || x != '"'
		return
	}
	switch {
	case x == '"':
		c.text = true
	case x == '[' || x == '{':
		c.depth++
	case x == ']' || x == '}':
		c.depth--
	case x == ',' && c.depth == 1:
		c.open = false
	}
}
