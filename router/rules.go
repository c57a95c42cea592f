package router

import (
	"cmp"
	"fmt"
	"net/mail"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// rules are the constraints in a field's tags. The binder enforces and the OpenAPI
// document shows the same value, so they cannot differ.
type rules struct {
	required bool
	nullable bool
	object   bool // a free value that must be an object
	optional bool // a body that may be omitted
	nul      bool // a string that may contain U+0000
	alone    bool // a query parameter that makes the others ignored
	secret   bool // a password, a key or what else must not be in a log
	masked   bool // not a secret, but masked in the audit log
	minLen   int  // characters of a string, entries of a list
	enum     []string
	min, max *float64
	format   string // "", "email", "date-time" or FormatEpochMs
	fallback string // value of a query parameter that is absent
	doc      string
	example  string // as JSON, except for strings and lists of them; "-" is none
}

// parseRules parses the constraint tags. Its error names the tag.
func parseRules(tag reflect.StructTag) (rules, error) {
	r := rules{
		required: tag.Get("required") == "true",
		nullable: tag.Get("nullable") == "true",
		object:   tag.Get("object") == "true",
		optional: tag.Get("optional") == "true",
		nul:      tag.Get("nul") == "true",
		alone:    tag.Get("alone") == "true",
		secret:   tag.Get("secret") == "true",
		masked:   tag.Get("masked") == "true",
		format:   tag.Get("format"),
		fallback: tag.Get("default"),
		doc:      tag.Get("doc"),
		example:  tag.Get("example"),
	}
	if s := tag.Get("enum"); s != "" {
		r.enum = strings.Split(s, "|")
	}
	if !slices.Contains([]string{"", "email", "date-time", FormatEpochMs}, r.format) {
		return r, fmt.Errorf("tag format: %q is not known", r.format)
	}
	return r, r.parseBounds(tag)
}

func (r *rules) parseBounds(tag reflect.StructTag) (err error) {
	if s, ok := tag.Lookup("minlen"); ok {
		if r.minLen, err = strconv.Atoi(s); err != nil {
			return fmt.Errorf("tag minlen: %w", err)
		}
	}
	if r.min, err = parseBound(tag, "min"); err != nil {
		return err
	}
	r.max, err = parseBound(tag, "max")
	return err
}

func parseBound(tag reflect.StructTag, name string) (*float64, error) {
	s, ok := tag.Lookup(name)
	if !ok {
		return nil, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("tag %s: %w", name, err)
	}
	return &f, nil
}

// checkText returns the error text for a string, or "".
func (r *rules) checkText(s string) string {
	switch {
	case !r.nul && strings.IndexByte(s, 0) >= 0: // brokers written in C would truncate it
		return "must not hold U+0000"
	case r.minLen > 0 && utf8.RuneCountInString(s) < r.minLen:
		return "must have at least " + count(r.minLen, "character")
	case r.enum != nil && !slices.Contains(r.enum, s):
		return r.oneOf()
	case r.format == "email" && !isEmail(s):
		return "must be an e-mail address"
	case r.format == "date-time" && !isDateTime(s):
		return "must be a date and time as in 2026-01-31T12:00:00Z"
	}
	return ""
}

// checkLen returns the error text for the number of entries of a list, or "".
func (r *rules) checkLen(n int) string {
	if n < r.minLen {
		return "must have at least " + count(r.minLen, "entry")
	}
	return ""
}

// checkNumber returns the error text for a number, or "".
func (r *rules) checkNumber(f float64) string {
	switch {
	case r.min != nil && f < *r.min:
		return "must be at least " + formatNumber(*r.min)
	case r.max != nil && f > *r.max:
		return "must be at most " + formatNumber(*r.max)
	case r.enum != nil && !slices.Contains(r.enum, formatNumber(f)):
		return r.oneOf()
	}
	return ""
}

// oneOf returns the error text for a value that is not in the enum.
func (r *rules) oneOf() string {
	if r.enum[0] == "" {
		return "must be empty or one of " + strings.Join(r.enum[1:], ", ")
	}
	return "must be one of " + strings.Join(r.enum, ", ")
}

func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

func isDateTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// count returns a number with its noun.
func count(n int, noun string) string {
	plural := map[string]string{"entry": "entries", "character": "characters"}
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, cmp.Or(plural[noun], noun))
}
