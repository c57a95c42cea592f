package console

import (
	"net/http"
	"slices"
	"strings"
)

// schemaEditor is a document that is edited by the fields of its schema, or as JSON. It
// stands in the posted form only, so that it works without scripts and in several tabs.
type schemaEditor struct {
	AsJSON   bool
	Only     string // why there are no fields, "" if there are
	Parts    []schemaPart
	Config   field  // the document as JSON
	Document string // as it is shown
	Opened   string // pointer of the entry that is shown even if there are many
	Said     string // what the button that was used did
}

// schemaDraft is a document as it was read or posted, with its secrets.
type schemaDraft struct {
	form     *schemaForm
	document any
	asJSON   bool
	text     string // as it was posted as JSON
	said     string
	sealer   sealer
	owner    string // whose secrets are sealed, and of what form
}

// newDraft returns a draft without a document.
func (q *request) newDraft(schema *schemaNode) *schemaDraft {
	d := &schemaDraft{sealer: q.console.sealer, owner: q.me.ID + " " + q.http.URL.Path}
	d.form = &schemaForm{schema: schema, t: q.t, sentence: q.lang.sentence, errors: map[string]string{}, wrong: map[string]string{}}
	return d
}

// maxFieldsDocument bounds a document that is edited by fields, in bytes: its form has each
// value twice.
const maxFieldsDocument = 256 << 10

// readDraft returns the draft of a document.
func (q *request) readDraft(schema *schemaNode, text []byte) *schemaDraft {
	d := q.newDraft(schema)
	var err error
	if d.document, err = readJSON(text); err != nil {
		d.text = string(text)
	}
	d.asJSON = err != nil
	return d
}

// postedDraft returns the draft of the posted form.
func (q *request) postedSchemaDraft(schema *schemaNode) *schemaDraft {
	d := q.newDraft(schema)
	d.form.posted, d.form.open = q.http.PostForm, q.posted("open")
	d.asJSON, d.text = q.posted("mode") != "fields", q.posted("config")
	text := d.text
	if !d.asJSON {
		text = q.posted("document")
	}
	document, err := readJSON([]byte(text))
	switch {
	case err != nil:
		d.form.errors["/config"], d.asJSON = notDocument(q.t, text, err), true
		return d
	case !d.asJSON && len(schema.Properties) == 0: // it had some when the form was shown
		d.form.errors["/config"] = q.t("schema.no_fields")
	case !d.asJSON:
		document = d.form.document(document)
	}
	d.document = schema.mapSecrets(schema.Defs, document, "", func(pointer, text string) string {
		secret, ok := d.sealer.open(text, d.owner)
		if !ok {
			d.form.errors[pointer] = q.t("schema.lost_secret")
		}
		return secret
	})
	for _, pointer := range sealedIn(d.document, "") { // where the schema has no secret
		d.form.errors[pointer] = q.t("schema.lost_secret")
	}
	return d
}

// problem returns why the posted fields make no document, nil if they do.
func (d *schemaDraft) problem(q *request) error {
	if len(d.form.errors) == 0 {
		return nil
	}
	e := &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: q.t("error.fields")}
	for pointer, message := range d.form.errors {
		e.Info.Errors = append(e.Info.Errors, fieldError{pathOf(pointer), message})
	}
	slices.SortFunc(e.Info.Errors, func(a, b fieldError) int { return strings.Compare(a.Field, b.Field) })
	return e
}

// apply applies the button with which the draft was posted.
func (d *schemaDraft) apply(do, pointer string) {
	switch do {
	case "json", "fields":
		d.asJSON = do == "json"
		d.text = ""
	default:
		d.document, d.said = d.form.step(d.document, do, pointer)
	}
}

// editor returns what is shown of the draft, with the errors of the failed action.
func (d *schemaDraft) editor(q *request) schemaEditor {
	f := d.form
	if q.failure != nil {
		for _, e := range q.failure.Info.Errors {
			f.errors[pointerOf(e.Field)] = e.Message
		}
	}
	sealed := f.schema.mapSecrets(f.schema.Defs, d.document, "", func(_, text string) string {
		f.stored = f.stored || text == maskedSecret
		return d.sealer.seal(text, d.owner)
	})
	e := schemaEditor{AsJSON: d.asJSON, Document: string(writeJSON(sealed)), Opened: f.open, Said: d.said}
	switch _, isObject := d.document.(*jsonObject); {
	case d.document == nil && d.text != "":
		e.AsJSON = true
	case len(f.schema.Properties) == 0 || !isObject:
		e.AsJSON, e.Only = true, q.t("schema.no_fields")
	case len(e.Document) > maxFieldsDocument:
		e.AsJSON, e.Only = true, q.t("schema.too_large")
	}
	if !e.AsJSON {
		e.Parts = f.fields(sealed)
		return e
	}
	text := d.text
	if d.document != nil && (text == "" || string(writeJSON(sealed)) != string(writeJSON(d.document))) {
		text = indented(writeJSON(sealed))
	}
	e.Config = field{Name: "config", Kind: kindLong, Label: q.t("field.config"), Hint: q.t("hint.config"), Value: text, Required: true, Error: f.errors["/config"]}
	return e
}
