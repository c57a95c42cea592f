package sql

import (
	"bytes"
	"encoding/json"
	"strings"
)

// arrayLiteral converts a JSON array to an array literal of PostgreSQL. Any other value is
// returned unchanged: the database reports what is wrong with it.
func arrayLiteral(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var list []any
	if err := d.Decode(&list); err != nil {
		return string(raw)
	}
	var b strings.Builder
	writeArray(&b, list)
	return b.String()
}

func writeArray(b *strings.Builder, list []any) {
	b.WriteByte('{')
	for i, e := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		writeElement(b, e)
	}
	b.WriteByte('}')
}

// quoteElement escapes the characters with a meaning in an array.
var quoteElement = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

func writeElement(b *strings.Builder, e any) {
	var word string
	switch e := e.(type) {
	case nil:
		b.WriteString("NULL")
		return
	case []any:
		writeArray(b, e)
		return
	case string:
		word = e
	default:
		text, err := json.Marshal(e)
		if err != nil {
			return // cannot happen: it was decoded from JSON
		}
		word = string(text)
	}
	b.WriteByte('"')
	quoteElement.WriteString(b, word) //nolint:errcheck // a Builder never fails
	b.WriteByte('"')
}
