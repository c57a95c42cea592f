package doctor

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hidden replaces a secret.
const hidden = "***"

// minSecret is the length in bytes from which secrets are searched for: shorter ones are found
// only where a name or the form shows them.
const minSecret = 4

// Scrubber removes secrets from texts: those that it knows, in the encodings in which texts have
// them, and what looks like one. With names it replaces those of clients, too, each by the same word
// in all texts of one scrubber.
type Scrubber struct {
	secrets *strings.Replacer
	names   map[string]bool
	longer  *strings.Replacer // names that are not one word
	key     []byte            // of the words in place of names; nil keeps names
}

// NewScrubber returns a scrubber for secrets.
func NewScrubber(secrets []string) *Scrubber {
	var all []string
	for _, s := range secrets {
		for _, form := range encodings(strings.TrimSpace(s)) {
			if len(form) >= minSecret {
				all = append(all, form)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(all) {
		pairs = append(pairs, form, hidden)
	}
	return &Scrubber{secrets: strings.NewReplacer(pairs...)}
}

// encodings returns a secret as texts may have it.
func encodings(s string) []string {
	quoted := strconv.Quote(s)
	forms := []string{s, quoted[1 : len(quoted)-1], url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s)), hex.EncodeToString([]byte(s))}
	if text, err := json.Marshal(s); err == nil {
		forms = append(forms, string(text[1:len(text)-1]))
	}
	return append(forms, strings.ReplaceAll(quoted[1:len(quoted)-1], `\`, `\\`)) // quoted, in a quoted text
}

// HideNames makes the scrubber replace the names of clients.
func (s *Scrubber) HideNames(names []string) {
	s.key, s.names = make([]byte, 16), map[string]bool{}
	rand.Read(s.key)
	var pairs []string
	for _, n := range names {
		switch {
		case n == "":
		case word.FindString(n) == n:
			s.names[n] = true
		case len(n) >= minSecret:
			pairs = append(pairs, n, s.substitute(n))
		}
	}
	s.longer = strings.NewReplacer(pairs...)
}

// substitute returns the word in place of a name. It cannot be computed without the key, which is
// forgotten with the scrubber.
func (s *Scrubber) substitute(name string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(name))
	return "client-" + hex.EncodeToString(h.Sum(nil))[:8]
}

// The forms of secrets, and of what may have one.
var (
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`)
	token      = regexp.MustCompile(`\bsbx_[A-Za-z0-9_-]+`)
	bearer     = regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9+/=_.~-]+`)
	userinfo   = regexp.MustCompile(`://[^/@\s"']+@`)
	urlQuery   = regexp.MustCompile(`(\b[a-z]+://[^\s"'?]+)\?[^\s"')]+`)
	named      = regexp.MustCompile(`(?i)("?[a-z_.]*(?:password|passwd|secret_value|token|api_?key)"?[ \t]*[=:][ \t]*)("(?:[^"\\]|\\.)*"|[^\s",;]+)`)
	clientAttr = regexp.MustCompile(`(?i)("?\b(?:clientid|client_id|username|client)"?[ \t]*[=:][ \t]*)("(?:[^"\\]|\\.)*"|[^\s",;]+)`)
	word       = regexp.MustCompile(`[\p{L}\p{N}_.@+-]+`)
)

// Scrub returns a text without secrets.
func (s *Scrubber) Scrub(text string) string {
	text = privateKey.ReplaceAllString(text, hidden)
	text = s.secrets.Replace(text)
	text = token.ReplaceAllString(text, hidden)
	text = bearer.ReplaceAllString(text, "$1 "+hidden)
	text = userinfo.ReplaceAllString(text, "://"+hidden+"@")
	text = urlQuery.ReplaceAllString(text, "$1?"+hidden)
	text = replaceValues(named, text, func(string) string { return hidden })
	if s.key == nil {
		return text
	}
	text = replaceValues(clientAttr, text, s.substitute)
	text = s.longer.Replace(text)
	return word.ReplaceAllStringFunc(text, func(w string) string {
		name := strings.TrimRight(w, ".")
		if !s.names[name] {
			return w
		}
		return s.substitute(name) + w[len(name):]
	})
}

// replaceValues replaces the values of named members, which keep their quotes.
func replaceValues(of *regexp.Regexp, text string, by func(string) string) string {
	return of.ReplaceAllStringFunc(text, func(found string) string {
		parts := of.FindStringSubmatch(found)
		name, value := parts[1], parts[2]
		if strings.Contains(value, hidden) {
			return found // it was replaced
		}
		if plain, err := strconv.Unquote(value); err == nil {
			if plain == "" {
				return found
			}
			return name + `"` + by(plain) + `"`
		}
		return name + by(value)
	})
}
