package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxPayload bounds how much of a payload a page shows, in bytes.
const maxPayload = 64 << 10

// payloadView is a payload in one of its forms.
type payloadView struct {
	Size  int64 // of the whole payload
	Forms []payloadForm
	Shown string
	Cut   bool // only the beginning is shown
	CutAt int64
}

// payloadForm is a form in which a payload can be shown.
type payloadForm struct {
	Text    string
	Link    string
	Current bool
}

// The forms of a payload.
const (
	asText = "text"
	asJSON = "json"
	asHex  = "hex"
)

// payload returns a payload in the form that the query names, by default the one that
// suits it best. Its size is that of the whole, -1 if payload is the whole.
func (q *request) payload(payload, encoding string, size int64) payloadView {
	b := decodePayload(payload, encoding)
	v := payloadView{Size: max(size, int64(len(b))), Cut: size > int64(len(b))}
	form, forms := payloadFormOf(b, q.query.Get("as"), !v.Cut)
	for _, f := range forms {
		v.Forms = append(v.Forms, payloadForm{Text: q.t("broker.payload." + f), Link: q.withQuery("as", f), Current: f == form})
	}
	if len(b) > maxPayload {
		b, v.Cut = b[:maxPayload], true
	}
	v.CutAt = int64(len(b))
	v.Shown = shownPayload(b, form)
	return v
}

// payloadFormOf returns the form in which a payload is shown, and those that it has.
func payloadFormOf(b []byte, wanted string, whole bool) (form string, forms []string) {
	text := utf8.Valid(b) && !bytes.ContainsRune(b, 0)
	isJSON := whole && text && len(b) <= maxPayload && isDocument(b)
	if isJSON {
		forms = append(forms, asJSON)
	}
	forms = append(forms, asText, asHex)
	for _, f := range forms {
		if f == wanted {
			return f, forms
		}
	}
	switch {
	case isJSON:
		return asJSON, forms
	case text:
		return asText, forms
	}
	return asHex, forms
}

// isDocument reports whether a payload is a JSON object or array.
func isDocument(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && (b[0] == '{' || b[0] == '[') && json.Valid(b)
}

// shownPayload returns a payload as text for a page.
func shownPayload(b []byte, form string) string {
	switch form {
	case asHex:
		return strings.TrimSuffix(hex.Dump(b), "\n")
	case asJSON:
		return showLines(indented(bytes.TrimSpace(b)))
	}
	return showLines(strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\r\n", "\n"))
}

// hexLine returns the first n bytes in hexadecimal.
func hexLine(b []byte, n int) string {
	more := ""
	if len(b) > n {
		b, more = b[:n], " …"
	}
	var out strings.Builder
	for i, c := range b {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(hex.EncodeToString([]byte{c}))
	}
	return out.String() + more
}
