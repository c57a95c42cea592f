package bridges

import (
	"cmp"
	"encoding/base64"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// masked replaces a secret in a document that is read. In a document that is sent it keeps the
// stored secret.
const masked = "********"

// mask returns a document with its secrets masked, except empty ones.
func (s *schema) mask(document any) any {
	return s.mapConnections(document, func(_ string, c any) any {
		return s.annotations.rewrite(c, "", func(l leaf) any {
			if l.secret && l.value != "" && l.value != nil {
				return masked
			}
			return l.value
		})
	})
}

// mapConnections returns a document with change applied to every connection.
func (s *schema) mapConnections(document any, change func(path string, connection any) any) any {
	root, ok := document.(*object)
	if !ok {
		return document
	}
	list, ok := root.get("connections").([]any)
	if !ok {
		return document
	}
	changed := &object{members: slices.Clone(root.members)}
	all := make([]any, len(list))
	for i, c := range list {
		all[i] = change(elementPath("connections", i), c)
	}
	changed.put("connections", all)
	return changed
}

// unmask returns a document with masked secrets replaced by those of the stored one, except in
// connections whose addresses have changed.
func (s *schema) unmask(document, stored any) (any, Problems) {
	var problems Problems
	known := s.valuesByName(stored)
	merged := s.mapConnections(document, func(path string, c any) any {
		before := known[nameOf(c)]
		addresses := s.collect(c, func(l leaf) bool { return l.address && !l.isDefault })
		return s.annotations.rewrite(c, path, func(l leaf) any {
			if !l.secret || l.value != masked {
				return l.value
			}
			secret, ok := before.secrets[l.key]
			if !ok {
				problems.Add(l.path, "is masked, but no secret is stored there for a connection with this name: enter it")
				return l.value
			}
			if other := firstDifference(before.addresses, addresses); other != "" {
				problems.Add(l.path, "must be entered again, since "+other+" has changed: a stored secret is not sent to another address")
				return l.value
			}
			return secret
		})
	})
	return merged, problems
}

// storedValues is the values of a stored connection, by the keys of leaves.
type storedValues struct {
	secrets   map[string]any
	addresses map[string]any
}

// valuesByName returns the values of a document's connections, by name.
func (s *schema) valuesByName(document any) map[string]storedValues {
	all := map[string]storedValues{}
	s.mapConnections(document, func(_ string, c any) any {
		all[nameOf(c)] = storedValues{
			secrets:   s.collect(c, func(l leaf) bool { return l.secret && l.value != "" && l.value != nil }),
			addresses: s.collect(c, func(l leaf) bool { return l.address && !l.isDefault }),
		}
		return c
	})
	return all
}

// collect returns the wanted leaves of a connection.
func (s *schema) collect(connection any, wanted func(leaf) bool) map[string]any {
	all := map[string]any{}
	s.annotations.rewrite(connection, "", func(l leaf) any {
		if wanted(l) {
			all[l.key] = l.value
		}
		return l.value
	})
	return all
}

// firstDifference returns the first key with different values, "" for none.
func firstDifference(a, b map[string]any) string {
	var keys []string
	for key, v := range a {
		if w, ok := b[key]; !ok || v != w {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return slices.Min(keys)
}

func nameOf(connection any) string {
	if o, ok := connection.(*object); ok {
		name, _ := o.get("name").(string)
		return name
	}
	return ""
}

// secretsOf returns the secrets of a connection that are long enough to be searched for, and
// their encodings. Longer ones come first, as they may contain others.
func (s *schema) secretsOf(connection any) []string {
	var all []string
	add := func(text string) {
		if len(text) >= minSecret && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	users := s.collect(connection, func(l leaf) bool { return strings.HasSuffix(l.key, "username") })
	s.annotations.rewrite(connection, "", func(l leaf) any {
		text, ok := l.value.(string)
		if !ok || !l.secret {
			return l.value
		}
		before, isPassword := strings.CutSuffix(l.key, "password")
		if user, ok := users[before+"username"].(string); ok && isPassword && text != "" {
			add(base64.StdEncoding.EncodeToString([]byte(user + ":" + text))) // as in Basic authentication
		}
		if len(text) >= minSecret {
			quoted, encoded := strconv.Quote(text), appendScalar(nil, text)
			for _, form := range []string{text, base64.StdEncoding.EncodeToString([]byte(text)), url.QueryEscape(text), url.PathEscape(text),
				quoted[1 : len(quoted)-1], string(encoded[1 : len(encoded)-1]), html.EscapeString(text)} {
				add(form)
			}
		}
		return l.value
	})
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return all
}

// Secrets returns the secrets in a configuration of a kind as secretsOf does.
func Secrets(k Kind, document []byte) (all []string) {
	tree, _ := readTree(document)
	s := newKind(k).schema()
	s.mapConnections(tree, func(_ string, c any) any {
		all = append(all, s.secretsOf(c)...)
		return c
	})
	return all
}

// minSecret is the minimum length of a secret that is searched for, leastPart that of its part
// at the end of a truncated text, in bytes.
const (
	minSecret = 6
	minPart   = 4
)

// redact masks secrets in a text, even if the text is truncated within one.
func redact(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, masked)
	}
	for _, s := range secrets {
		for _, ellipsis := range []string{"...", "…"} {
			if strings.Contains(text, ellipsis) {
				parts := strings.Split(text, ellipsis)
				for i := range parts[:len(parts)-1] {
					parts[i] = redactPrefix(parts[i], s)
				}
				text = strings.Join(parts, ellipsis)
			}
		}
		text = redactPrefix(text, s)
	}
	return text
}

// redactPrefix masks the beginning of a secret at the end of a text.
func redactPrefix(text, secret string) string {
	for n := min(len(secret)-1, len(text)); n >= minPart; n-- {
		if before, ok := strings.CutSuffix(text, secret[:n]); ok {
			return before + masked
		}
	}
	return text
}
