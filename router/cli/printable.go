package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable returns a text in which a terminal finds no commands: what is not printable,
// text that is not UTF-8 and marks that change the direction of writing are escaped.
func printable(text string) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0])|0x100, 16)[1:])
		case hidden(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// Printable is printable for the commands of other packages.
func Printable(text string) string { return printable(text) }

// hidden reports whether a rune is escaped.
func hidden(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
