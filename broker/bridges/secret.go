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

// masked stands for a secret in a document that is read, and says of one that is
// sent that the secret is to stay.
const masked = "********"

// mask gives a document with its secrets masked. Those that are empty are shown
// so.
func (s *schema) mask(document any) any {
	return s.overConnections(document, func(_ string, c any) any {
		return s.shape.rewrite(c, "", func(l leaf) any {
			if l.secret && l.value != "" && l.value != nil {
				return masked
			}
			return l.value
		})
	})
}

// overConnections gives a document with every connection as change wants it.
func (s *schema) overConnections(document any, change func(path string, connection any) any) any {
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
		all[i] = change(index("connections", i), c)
	}
	changed.put("connections", all)
	return changed
}

// unmask gives a document with the secrets of the stored one where they are
// masked. A connection whose addresses differ from those stored gets none.
func (s *schema) unmask(document, stored any) (any, Problems) {
	var problems Problems
	known := s.known(stored)
	merged := s.overConnections(document, func(path string, c any) any {
		before := known[nameOf(c)]
		addresses := s.keep(c, func(l leaf) bool { return l.address && !l.fallback })
		return s.shape.rewrite(c, path, func(l leaf) any {
			if !l.secret || l.value != masked {
				return l.value
			}
			secret, ok := before.secrets[l.key]
			if !ok {
				problems.Add(l.path, "is masked, but nothing is stored there for a connection of this name: give it in full")
				return l.value
			}
			if other := differing(before.addresses, addresses); other != "" {
				problems.Add(l.path, "must be given anew, since "+other+" has changed: a stored secret is not sent to another address")
				return l.value
			}
			return secret
		})
	})
	return merged, problems
}

// kept is what a stored connection holds, by the keys of leaves.
type kept struct {
	secrets   map[string]any
	addresses map[string]any
}

// known gives what the connections of a document hold, by their names.
func (s *schema) known(document any) map[string]kept {
	all := map[string]kept{}
	s.overConnections(document, func(_ string, c any) any {
		all[nameOf(c)] = kept{
			secrets:   s.keep(c, func(l leaf) bool { return l.secret && l.value != "" && l.value != nil }),
			addresses: s.keep(c, func(l leaf) bool { return l.address && !l.fallback }),
		}
		return c
	})
	return all
}

// keep gives the leaves of a connection that are wanted.
func (s *schema) keep(connection any, wanted func(leaf) bool) map[string]any {
	all := map[string]any{}
	s.shape.rewrite(connection, "", func(l leaf) any {
		if wanted(l) {
			all[l.key] = l.value
		}
		return l.value
	})
	return all
}

// differing gives the first key by which two sets of leaves differ, "" for none.
func differing(a, b map[string]any) string {
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

// secretsOf gives the secrets of a connection that are long enough to be told
// from other text, and the forms in which they are sent or told. The longest comes
// first, as one may hold another.
func (s *schema) secretsOf(connection any) []string {
	var all []string
	add := func(text string) {
		if len(text) >= leastSecret && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	users := s.keep(connection, func(l leaf) bool { return strings.HasSuffix(l.key, "username") })
	s.shape.rewrite(connection, "", func(l leaf) any {
		text, ok := l.value.(string)
		if !ok || !l.secret {
			return l.value
		}
		before, isPassword := strings.CutSuffix(l.key, "password")
		if user, ok := users[before+"username"].(string); ok && isPassword && text != "" {
			add(base64.StdEncoding.EncodeToString([]byte(user + ":" + text))) // as in Basic authentication
		}
		if len(text) >= leastSecret {
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

// leastSecret is how many bytes a secret has at least that is searched for, leastPart
// how many of it at the end of a text that was cut off.
const (
	leastSecret = 6
	leastPart   = 4
)

// scrub masks secrets in a text, also where the text is cut off in one.
func scrub(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, masked)
	}
	for _, s := range secrets {
		for _, mark := range []string{"...", "…"} {
			if strings.Contains(text, mark) {
				parts := strings.Split(text, mark)
				for i := range parts[:len(parts)-1] {
					parts[i] = withoutPart(parts[i], s)
				}
				text = strings.Join(parts, mark)
			}
		}
		text = withoutPart(text, s)
	}
	return text
}

// withoutPart masks the beginning of a secret at the end of a text.
func withoutPart(text, secret string) string {
	for n := min(len(secret)-1, len(text)); n >= leastPart; n-- {
		if before, ok := strings.CutSuffix(text, secret[:n]); ok {
			return before + masked
		}
	}
	return text
}
