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

// Brokers show the secrets in the configurations of their bridges, and describe
// these by no schema. What is a secret is therefore told by the name of its member;
// the password in a URL is one, too.

// mask stands in place of a secret.
const mask = "********"

// holdsMask tells whether a configuration has masked parts.
func holdsMask(config json.RawMessage) bool { return bytes.Contains(config, []byte(mask)) }

// secretWords are in the names of members that are secrets, which are compared in
// lower case and without separators.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "clientkey",
	"sharedkey", "connectionstring", "authorization"}

// harmless end the names of members that are about a secret and hold none.
var harmless = []string{"url", "uri", "file", "path", "type", "id", "name", "length", "expiry"}

func isSecretName(name string) bool {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name))
	in := func(part string) bool { return strings.Contains(name, part) }
	ends := func(part string) bool { return strings.HasSuffix(name, part) }
	return slices.ContainsFunc(secretWords, in) && !slices.ContainsFunc(harmless, ends)
}

// maskText gives a string as it is shown under a name.
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
	begin := strings.Index(s, "//") + len("//") // behind which url.Parse has found a user
	end := len(s)
	if i := strings.IndexAny(s[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	at := begin + strings.LastIndexByte(s[begin:end], '@')
	user, _, _ := strings.Cut(s[begin:at], ":")
	return s[:begin] + user + ":" + mask + s[at:]
}

// masked gives a configuration without its secrets; one without any as it is.
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

// maskValue gives a value as it is shown under a name, without changing it.
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

// unmasked puts the secrets of the stored configuration in place of their masks. A
// secret stays only while the part that it belongs to is the same in all that is
// shown: it must not be sent to another address by somebody who does not know it.
func unmasked(config, stored json.RawMessage) (json.RawMessage, []broker.Field) {
	v, err := decodeAny(config)
	old, oldErr := decodeAny(stored)
	if err != nil || oldErr != nil {
		return config, nil // the broker will say what is wrong
	}
	u := &unmasking{}
	full := u.value("", "", v, old, alike(simple(v), simple(old)), false)
	if len(u.bad) > 0 || !u.changed {
		return config, u.bad
	}
	return encodeAny(full), nil
}

// alike tells whether two values are the same in all that is shown.
func alike(v, old any) bool { return reflect.DeepEqual(maskValue("", v), maskValue("", old)) }

// simple gives the members of an object that have no members themselves.
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

// value gives a value with its secrets. same tells whether the part that it is in is
// the same as the stored one; the outermost object below the root is a part, of which
// the member connection, if it has one, is what counts.
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
	case secret == v: // the broker masks, too
	case !same:
		u.bad = append(u.bad, broker.Field{Path: path, Msg: "is masked, but what it belongs to is not what the broker has: give the secret anew"})
	default:
		u.changed = true
		return secret
	}
	return v
}

// counterpart finds what an entry of a list was before: the entry of the same name,
// or in the same place where entries have none.
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

// decodeAny reads JSON, numbers as they are written.
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
