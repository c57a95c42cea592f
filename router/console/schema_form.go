package console

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
)

// schemaForm makes the fields of a form from a JSON Schema and a document, and the document
// from the posted fields. The name of a field is the pointer of its value. The document as
// it was shown is posted beside the fields: what is not shown stays as it is, and so does a
// value whose field was not changed, whether it is present or only its default is.
type schemaForm struct {
	schema *schemaNode
	t      func(key string, args ...any) string
	posted url.Values        // nil if nothing was posted
	errors map[string]string // by pointer
	wrong  map[string]string // posted texts that are no values, by pointer
	open   string            // pointer of the entry that is shown even if there are many
	focus  string            // pointer of what takes the focus; "" for nothing
	moved  string            // the button that moved it, "up" or "down"
	left   int               // fields that may still be shown
	stored bool              // the document has secrets that are stored

	sentence func(english string) (text string, ok bool) // of the schema, in the language of the user
}

// The bounds of a form: beyond them JSON is edited. Fields are those of entries that are
// shown without being opened.
const (
	maxFormDepth   = 4 // objects within each other
	maxFormEntries = 50
	maxFormFields  = 120
)

// schemaPart is a part of a schema form: a field, the fields of an object, or the entries of
// an array.
type schemaPart struct {
	field
	Parts  []schemaPart
	Open   bool   // a group is shown open, an entry with its fields
	Entry  bool   // an entry of a list
	Clear  bool   // the value can be removed
	Up     bool   // the entry can be moved
	Down   bool   //
	Moved  string // "up" or "down" if that button takes the focus
	Chosen bool   // decides which fields follow
	Item   string // title of an entry of a list
	Full   bool   // the list takes no more entries
}

// fields returns the parts of the form for a document.
func (f *schemaForm) fields(document any) []schemaPart {
	f.left = maxFormFields
	return f.part(f.schema, document, true, schemaPart{}, 0).Parts
}

// part returns the part of the form for a value; p has what its parent knows of it.
func (f *schemaForm) part(n *schemaNode, v any, present bool, p schemaPart, depth int) schemaPart {
	n = n.resolved(f.schema.Defs)
	p.About, p.Kind, p.Error = n.Description, f.control(n, v, present, depth), f.errors[p.Name]
	if p.Label == "" {
		text, ok := f.sentence(n.Title)
		p.Label, p.English = cmp.Or(show(text), show(p.last())), !ok
	}
	switch p.Kind {
	case kindFixed:
	case kindGroup:
		f.addMembers(&p, n.chosen(v), v, depth)
	case kindList:
		f.addEntries(&p, n, v, depth)
	default:
		f.fillField(&p, n, v, present)
	}
	return p
}

// last returns the last name of the part's pointer.
func (p *schemaPart) last() string {
	return unescapePointer.Replace(p.Name[strings.LastIndexByte(p.Name, '/')+1:])
}

// addMembers adds the fields of an object.
func (f *schemaForm) addMembers(p *schemaPart, n *schemaNode, v any, depth int) {
	chooses, _ := n.discriminator()
	o := asObject(v)
	for _, m := range n.Properties {
		child, present := o.get(m.name)
		c := f.part(&m.node, child, present, schemaPart{field: field{Name: below(p.Name, m.name), Required: n.requires(m.name)}}, depth+1)
		if c.Kind == kindFixed {
			continue
		}
		c.Clear = c.Kind == kindGroup && present && !c.Required
		c.Open = c.Kind != kindGroup || c.Required || len(asObject(child).members) > 0 || f.hasError(c.Name) || isWithin(f.focus, c.Name) && f.focus != ""
		c.Chosen = m.name == chooses
		p.Parts = append(p.Parts, c)
	}
}

// addEntries adds the entries of an array. They are shown without their fields when the form
// has many, except those that were opened or are wrong.
func (f *schemaForm) addEntries(p *schemaPart, n *schemaNode, v any, depth int) {
	list, _ := v.([]any)
	items := n.Items.resolved(f.schema.Defs)
	p.Item, p.Full = cmp.Or(f.title(items), p.Label), len(list) >= maxFormEntries
	for i, e := range list {
		entry := schemaPart{field: field{Name: below(p.Name, strconv.Itoa(i)), Label: f.entryTitle(items, i, e)}, Entry: true, Clear: true, Up: i > 0, Down: i+1 < len(list)}
		if f.left > 0 || isWithin(f.open, entry.Name) || f.hasError(entry.Name) {
			if f.focus == entry.Name && f.moved != "" {
				entry.Moved, f.focus = f.moved, ""
				if entry.Moved == "up" && !entry.Up {
					entry.Moved = "down"
				} else if entry.Moved == "down" && !entry.Down {
					entry.Moved = "up"
				}
			}
			entry = f.part(items, e, true, entry, depth)
			entry.Open, entry.About = true, ""
		} else {
			entry.Kind = kindGroup
		}
		p.Parts = append(p.Parts, entry)
	}
	p.Focus = f.focus == below(p.Name, "-")
}

// title returns the title of a schema in the language of the user.
func (f *schemaForm) title(n *schemaNode) string {
	text, _ := f.sentence(n.Title)
	return show(text)
}

// entryTitle returns the title of an entry, with the name that it has in the document.
func (f *schemaForm) entryTitle(n *schemaNode, i int, v any) string {
	title := f.t("schema.entry", f.title(n), i+1)
	for _, member := range []string{"name", "target"} {
		text, _ := asObject(v).get(member)
		if name, ok := text.(string); ok && name != "" {
			return title + ": " + show(name)
		}
	}
	return title
}

// fillField completes a field.
func (f *schemaForm) fillField(p *schemaPart, n *schemaNode, v any, present bool) {
	f.left--
	p.Value, p.AsText = n.text(p.Kind, v, present), p.Kind == kindNumber
	if wrong, ok := f.wrong[p.Name]; ok {
		p.Value = wrong
	}
	p.Checked = p.Kind == kindCheckbox && p.Value == "true"
	p.Options = f.options(p, n)
	p.Hint = f.hint(p, n)
	if isLeafError := p.Kind == kindLines || p.Kind == kindPairs || p.Kind == kindJSON; isLeafError && p.Error == "" {
		p.Error = f.errorBelow(p)
	}
	if f.focus != "" && isWithin(p.Name, f.focus) {
		p.Focus, f.focus = true, ""
	}
}

// hint returns what the schema does not describe: how a value is written, and what happens to
// secrets.
func (f *schemaForm) hint(p *schemaPart, n *schemaNode) string {
	var hints []string
	if p.Kind == kindLines || p.Kind == kindPairs || p.Kind == kindJSON {
		hints = append(hints, f.t("schema."+p.Kind))
	}
	if n.Minimum != "" && n.Maximum != "" {
		hints = append(hints, f.t("schema.range", n.Minimum, n.Maximum))
	}
	if n.Address && f.stored {
		hints = append(hints, f.t("schema.address"))
	}
	if n.WriteOnly && p.Value == maskedSecret {
		hints = append(hints, f.t("schema.secret"))
	}
	return strings.Join(hints, " ")
}

// maskedSecret is what the API returns for a secret that is stored; sent back, it stays.
const maskedSecret = "********"

// options returns the choices of a field. One that may stay without a value has an empty
// one first.
func (f *schemaForm) options(p *schemaPart, n *schemaNode) (all []option) {
	if p.Kind != kindSelect && p.Kind != kindRadio {
		return nil
	}
	if _, ok := n.choice(p.Value, nil); !ok || len(n.Default) == 0 && !p.Required {
		all = append(all, option{"", f.t("schema.none")})
	}
	for _, c := range n.choices() {
		label := c.label
		if label != c.text { // a title
			label, _ = f.sentence(label)
		}
		all = append(all, option{c.text, cmp.Or(show(label), f.t("schema.none"))})
	}
	return all
}

// hasError reports whether a value or a part of it is wrong.
func (f *schemaForm) hasError(pointer string) bool {
	for name := range f.errors {
		if isWithin(name, pointer) {
			return true
		}
	}
	return false
}

// errorBelow returns the first error of a part of a field's value, with its line if each
// part has one.
func (f *schemaForm) errorBelow(p *schemaPart) string {
	first, text := "", ""
	for name, e := range f.errors {
		if isWithin(name, p.Name) && (first == "" || len(name) < len(first) || len(name) == len(first) && name < first) {
			first, text = name, e
		}
	}
	if first == "" || p.Kind == kindJSON {
		return text
	}
	last := unescapePointer.Replace(first[strings.LastIndexByte(first, '/')+1:])
	if i, err := strconv.Atoi(last); err == nil && p.Kind == kindLines {
		return f.t("schema.line", i+1, text)
	}
	return last + ": " + text
}
