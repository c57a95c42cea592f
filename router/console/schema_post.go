package console

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// document returns the document of the posted fields: base, as the form has shown it, with
// the values of the fields that were changed.
func (f *schemaForm) document(base any) any {
	v, _ := f.value(f.schema, base, true, "", true, 0)
	return v
}

// value returns a value of the posted document, and whether it is present.
func (f *schemaForm) value(n *schemaNode, base any, present bool, name string, required bool, depth int) (any, bool) {
	n = n.resolved(f.schema.Defs)
	switch kind := f.control(n, base, present, depth); kind {
	case kindFixed:
		return base, present
	case kindGroup:
		return f.members(n, base, present, name, required, depth)
	case kindList:
		list, _ := base.([]any)
		list = slices.Clone(list)
		for i := range list {
			list[i], _ = f.value(n.Items, list[i], true, below(name, strconv.Itoa(i)), true, depth)
		}
		return list, present
	default:
		return f.posting(n, kind, base, present, name, required)
	}
}

// members returns the object of the posted fields. An optional one that has lost all of its
// members is not present.
func (f *schemaForm) members(n *schemaNode, base any, present bool, name string, required bool, depth int) (any, bool) {
	chosen := n.chosen(base)
	o, had := asObject(base), len(asObject(base).members)
	for _, m := range chosen.Properties {
		old, has := o.get(m.name)
		v, is := f.value(&m.node, old, has, below(name, m.name), chosen.requires(m.name), depth+1)
		o.put(m.name, v, is)
	}
	if discriminator, _ := n.discriminator(); discriminator != "" {
		if next := n.chosen(o); string(writeJSON(memberOf(o, discriminator))) != string(writeJSON(memberOf(asObject(base), discriminator))) {
			for _, m := range chosen.Properties {
				if !next.Properties.has(m.name) {
					o.remove(m.name)
				}
			}
		}
	}
	return o, len(o.members) > 0 || present && (required || had == 0)
}

// memberOf returns a member of an object, nil for none.
func memberOf(o *jsonObject, name string) any {
	v, _ := o.get(name)
	return v
}

// posting returns the value of a posted field.
func (f *schemaForm) posting(n *schemaNode, kind string, base any, present bool, name string, required bool) (any, bool) {
	texts := f.posted[name]
	if len(texts) == 0 {
		return base, present
	}
	text := lineEnds.Replace(texts[len(texts)-1]) // a checkbox is preceded by a hidden field with false
	switch {
	case text == lineEnds.Replace(n.text(kind, base, present)):
		return base, present
	case kind == kindCheckbox:
		return text == "true", true
	case text == "":
		return n.emptied(kind, required)
	}
	v, wrong := n.parse(kind, text, f.t)
	if wrong != "" {
		f.errors[name] = wrong
		if isSecret := n.WriteOnly || n.Others != nil && n.Others.resolved(f.schema.Defs).WriteOnly; !isSecret {
			f.wrong[name] = text
		}
		return base, present
	}
	return v, true
}

// lineEnds makes the ends of lines those of JSON documents: browsers send CRLF.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// emptied returns the value of a field that was emptied: none, unless it is required or its
// default would take the place of an empty one.
func (n *schemaNode) emptied(kind string, required bool) (any, bool) {
	v, hasDefault := n.defaultValue()
	switch kind {
	case kindText, kindLong, kindPassword:
		return "", required || hasDefault && v != "" && n.MinLength == 0
	case kindSelect, kindRadio:
		_, ok := n.choice("", nil)
		return "", ok
	case kindLines:
		list, _ := v.([]any)
		return []any{}, required || len(list) > 0
	case kindPairs:
		return &jsonObject{}, required
	}
	return nil, false
}

// parse returns the value of a posted text, or why it is none. What is not of the type of
// the schema is sent as text: the API reports the error.
func (n *schemaNode) parse(kind, text string, t func(key string, args ...any) string) (v any, wrong string) {
	switch kind {
	case kindNumber:
		return number(text), ""
	case kindSelect, kindRadio:
		if c, ok := n.choice(text, nil); ok {
			return c.value, ""
		}
	case kindLines:
		list := []any{}
		for _, line := range lines(text) {
			if n.Items.typ() == "string" {
				list = append(list, line)
			} else {
				list = append(list, number(line))
			}
		}
		return list, ""
	case kindPairs:
		return pairs(text, t)
	case kindJSON:
		v, err := readJSON([]byte(text))
		if err != nil {
			return nil, notDocument(t, text, err)
		}
		return v, ""
	}
	return text, ""
}

// number returns a number, or the text if it is none.
func number(text string) any {
	text = strings.TrimSpace(text)
	if v, err := readJSON([]byte(text)); err == nil {
		if n, ok := v.(json.Number); ok {
			return n
		}
	}
	return text
}

// pairs reads one member per line: its name, a colon and its value.
func pairs(text string, t func(key string, args ...any) string) (v any, wrong string) {
	o, number := &jsonObject{}, 0
	for line := range strings.Lines(text) {
		if number++; strings.TrimSpace(line) == "" {
			continue
		}
		name, value, isPair := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !isPair || name == "" {
			return nil, t("schema.line", number, t("schema.not_pair"))
		}
		if _, twice := o.get(name); twice {
			return nil, t("schema.twice", show(name))
		}
		o.set(name, strings.TrimSpace(value))
	}
	return o, ""
}

// maxSteps bounds the names of a posted pointer.
const maxSteps = 16

// step changes the document as a button asks for: to add an entry, to move or remove one, or
// to remove a value. It returns what was done, for a message.
func (f *schemaForm) step(document any, do, pointer string) (changed any, said string) {
	steps := pointerSteps(pointer)
	if !strings.HasPrefix(pointer, "/") || len(steps) > maxSteps {
		return document, ""
	}
	switch do {
	case "add":
		return f.add(document, pointer, steps)
	case "up", "down":
		return f.move(document, do, pointer, steps)
	case "open":
		f.open, f.focus = pointer, pointer
	case "remove":
		return f.remove(document, pointer, steps)
	}
	return document, ""
}

// remove removes an entry of an array, or a member of an object.
func (f *schemaForm) remove(document any, pointer string, steps []string) (changed any, said string) {
	last := len(steps) - 1
	f.focus = below(pointer[:strings.LastIndexByte(pointer, '/')], "-")
	changed = changeAt(document, steps[:last], func(v any, present bool) (any, bool) {
		list, _ := v.([]any)
		if i := index(v, steps[last]); i >= 0 {
			said = f.t("schema.removed")
			return slices.Delete(slices.Clone(list), i, i+1), true
		}
		o := asObject(v)
		if _, has := o.get(steps[last]); !has {
			return v, present
		}
		said = f.t("schema.removed")
		o.remove(steps[last])
		return o, true
	})
	return changed, said
}

// index returns the index of an entry that a name in a pointer names, -1 for none.
func index(v any, name string) int {
	list, _ := v.([]any)
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
		return i
	}
	return -1
}

// add appends an entry to an array, with no members but the objects that it requires.
func (f *schemaForm) add(document any, pointer string, steps []string) (changed any, said string) {
	changed = changeAt(document, steps, func(v any, present bool) (any, bool) {
		list, ok := v.([]any)
		if present && !ok || len(list) >= maxFormEntries {
			return v, present
		}
		f.open = below(pointer, strconv.Itoa(len(list)))
		f.focus, said = f.open, f.t("schema.added")
		return append(slices.Clone(list), f.newEntry(document, steps)), true
	})
	return changed, said
}

// newEntry returns a new entry of the array to which names lead.
func (f *schemaForm) newEntry(document any, steps []string) *jsonObject {
	n, v := f.schema.resolved(f.schema.Defs), document
	for _, name := range steps {
		var next *schemaNode
		if i := index(v, name); i >= 0 {
			next, v = n.Items, v.([]any)[i]
		} else {
			next, v = n.chosen(v).member(name), memberOf(asObject(v), name)
		}
		if next == nil {
			return &jsonObject{}
		}
		n = next.resolved(f.schema.Defs)
	}
	return f.skeleton(n.Items, 0)
}

// skeleton returns an object with the objects that its schema requires.
func (f *schemaForm) skeleton(n *schemaNode, depth int) *jsonObject {
	o := &jsonObject{}
	if n == nil || depth > maxFormDepth {
		return o
	}
	n = n.resolved(f.schema.Defs)
	for _, p := range n.Properties {
		if n.requires(p.name) && p.node.resolved(f.schema.Defs).control(f.schema.Defs, depth) == kindGroup {
			o.set(p.name, f.skeleton(&p.node, depth+1))
		}
	}
	return o
}

// move exchanges an entry with the one before or after it.
func (f *schemaForm) move(document any, do, pointer string, steps []string) (changed any, said string) {
	last, by := len(steps)-1, map[string]int{"up": -1, "down": 1}[do]
	changed = changeAt(document, steps[:last], func(v any, present bool) (any, bool) {
		list, _ := v.([]any)
		i := index(v, steps[last])
		if i < 0 || i+by < 0 || i+by >= len(list) {
			return v, present
		}
		list = slices.Clone(list)
		list[i], list[i+by] = list[i+by], list[i]
		f.open = below(pointer[:strings.LastIndexByte(pointer, '/')], strconv.Itoa(i+by))
		f.focus, f.moved = f.open, do
		said = f.t("schema.moved", i+by+1, len(list))
		return list, true
	})
	return changed, said
}

// mapSecrets returns a value with change applied to the texts that are secrets.
func (n *schemaNode) mapSecrets(defs map[string]schemaNode, v any, pointer string, change func(pointer, text string) string) any {
	if n = n.resolved(defs); n.WriteOnly {
		if text, ok := v.(string); ok {
			return change(pointer, text)
		}
	}
	switch v := v.(type) {
	case []any:
		if n.Items == nil {
			return v
		}
		list := slices.Clone(v)
		for i := range list {
			list[i] = n.Items.mapSecrets(defs, list[i], below(pointer, strconv.Itoa(i)), change)
		}
		return list
	case *jsonObject:
		o := asObject(v)
		for i, m := range o.members {
			if child := n.member(m.name); child != nil {
				o.members[i].value = child.mapSecrets(defs, m.value, below(pointer, m.name), change)
			}
		}
		return o
	}
	return v
}

// member returns the schema of a member, nil for none.
func (n *schemaNode) member(name string) *schemaNode {
	for i := range n.Properties {
		if n.Properties[i].name == name {
			return &n.Properties[i].node
		}
	}
	for i := range n.OneOf {
		if m := n.OneOf[i].member(name); m != nil {
			return m
		}
	}
	return n.Others
}
