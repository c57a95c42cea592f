package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"signalbox/broker"
)

// Brokers return the configurations of their bridges with secrets and without a schema. So a
// secret is recognized by the name of its member; passwords in URLs are secrets as well.

// mask replaces a secret.
const mask = "********"

// holdsMask reports whether a configuration has masks.
func holdsMask(config json.RawMessage) bool { return bytes.Contains(config, []byte(mask)) }

// secretWords are parts of the names of secrets, compared in lower case without separators.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "clientkey",
	"sharedkey", "connectionstring", "authorization"}

// harmless are suffixes of names that concern a secret but do not contain it.
var harmless = []string{"url", "uri", "file", "path", "type", "id", "name", "length", "expiry"}

func isSecretName(name string) bool {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name))
	in := func(part string) bool { return strings.Contains(name, part) }
	ends := func(part string) bool { return strings.HasSuffix(name, part) }
	return slices.ContainsFunc(secretWords, in) && !slices.ContainsFunc(harmless, ends)
}

// maskText masks a string with a given name if it is a secret.
func maskText(name, s string) string {
	if s == "" {
		return s
	}
	if isSecretName(name) {
		return mask
	}
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return s
	}
	if _, ok := u.User.Password(); !ok {
		return s
	}
	begin := strings.Index(s, "//") + len("//") // url.Parse has found a user after it
	end := len(s)
	if i := strings.IndexAny(s[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	at := begin + strings.LastIndexByte(s[begin:end], '@')
	user, _, _ := strings.Cut(s[begin:at], ":")
	return s[:begin] + user + ":" + mask + s[at:]
}

// masked returns a configuration with masked secrets; unchanged if there are none.
func masked(config json.RawMessage) json.RawMessage {
	v, err := decodeAny(config)
	if err != nil {
		return config
	}
	shown := maskValue("", v)
	if reflect.DeepEqual(shown, v) {
		return config
	}
	return encodeAny(shown)
}

// maskValue returns a masked copy of a value with a given name.
func maskValue(name string, v any) any {
	switch v := v.(type) {
	case string:
		return maskText(name, v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = maskValue(name, v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for member := range v {
			object[member] = maskValue(member, v[member])
		}
		return object
	}
	return v
}

// unmasked replaces masks by the stored secrets. A secret is kept only if everything visible
// in its part is unchanged: it must not be sent to another address by a user who does not know
// it.
func unmasked(config, stored json.RawMessage) (json.RawMessage, []broker.Field) {
	v, err := decodeAny(config)
	old, oldErr := decodeAny(stored)
	if err != nil || oldErr != nil {
		return config, nil // the broker reports the error
	}
	u := &unmasking{}
	full := u.value("", "", v, old, alike(simple(v), simple(old)), false)
	if len(u.bad) > 0 || !u.changed {
		return config, u.bad
	}
	return encodeAny(full), nil
}

// alike reports whether two values are equal when masked.
func alike(v, old any) bool { return reflect.DeepEqual(maskValue("", v), maskValue("", old)) }

// simple returns the members of an object that are not objects or arrays.
func simple(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	object = maps.Clone(object)
	maps.DeleteFunc(object, func(_ string, member any) bool {
		switch member.(type) {
		case []any, map[string]any:
			return true
		}
		return false
	})
	return object
}

type unmasking struct {
	changed bool
	bad     []broker.Field
}

// value replaces masks in a value. same reports whether its part is unchanged; a part is an
// outermost object below the root, or its member connection if it has one.
func (u *unmasking) value(path, name string, v, old any, same, inPart bool) any {
	switch v := v.(type) {
	case string:
		return u.text(path, name, v, old, same)
	case []any:
		oldList, _ := old.([]any)
		list := make([]any, len(v))
		for i := range v {
			list[i] = u.value(fmt.Sprintf("%s[%d]", path, i), name, v[i], counterpart(v[i], i, oldList), same, inPart)
		}
		return list
	case map[string]any:
		return u.object(path, v, old, same, inPart)
	}
	return v
}

func (u *unmasking) object(path string, v map[string]any, old any, same, inPart bool) any {
	oldObject, _ := old.(map[string]any)
	if !inPart && path != "" {
		inPart, same = true, alike(v, old)
		if connection, ok := v["connection"]; ok {
			same = alike(connection, oldObject["connection"])
		}
	}
	object := make(map[string]any, len(v))
	for _, member := range slices.Sorted(maps.Keys(v)) {
		object[member] = u.value(strings.TrimPrefix(path+"."+member, "."), member, v[member], oldObject[member], same, inPart)
	}
	return object
}

func (u *unmasking) text(path, name, v string, old any, same bool) string {
	if !strings.Contains(v, mask) {
		return v
	}
	secret, ok := old.(string)
	switch {
	case !ok, maskText(name, secret) != v:
		u.bad = append(u.bad, broker.Field{Path: path, Msg: "is masked, and the broker has no such secret: give it in full"})
	case secret == v: // masked by the broker
	case !same:
		u.bad = append(u.bad, broker.Field{Path: path, Msg: "is masked, but what it belongs to is not what the broker has: give the secret anew"})
	default:
		u.changed = true
		return secret
	}
	return v
}

// counterpart returns the stored entry of a list with the same name, or with the same index if
// entries have no names.
func counterpart(entry any, i int, list []any) any {
	name := func(v any) any {
		object, _ := v.(map[string]any)
		return object["name"]
	}
	if want, ok := name(entry).(string); ok {
		for _, one := range list {
			if name(one) == want {
				return one
			}
		}
		return nil
	}
	if i < len(list) {
		return list[i]
	}
	return nil
}

// decodeAny decodes JSON and keeps numbers as they are written.
func decodeAny(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func encodeAny(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(v) //nolint:errcheck // what was decoded can be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
