package console

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// bridgeConfigView is the configuration of a bridge, as fields or as JSON.
type bridgeConfigView struct {
	frame
	ID      string
	Editor  schemaEditor
	Members []schemaMember     // of the configuration, beside its JSON
	Tests   []bridgeConnection // nil before a test
	Sample  []field            // of the message whose preview is shown
	Preview []bridgePreview    //
	Count   string             // how many topic mappings take it; "" before a preview
	Back    link
}

// bridgePreview is what a message becomes for a topic mapping, as the API returns it.
type bridgePreview struct {
	Connection  string `json:"connectionName"`
	Mapping     string `json:"mapping"`
	Destination string `json:"destination"`
	Payload     string `json:"payload"`
	Encoding    string `json:"encoding"`
	Truncated   bool   `json:"truncated"`
	Size        int64  `json:"size"`
	Attributes  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"attributes"`
	Error string `json:"error"`
}

// bridgeDraft is the configuration that is edited, and what was tried with it.
type bridgeDraft struct {
	*schemaDraft
	tests    []bridgeConnection
	previews []bridgePreview // nil before a preview
}

// bridgeSchema returns the schema of the configuration. A bridge of another service need not
// have one; then only JSON is edited.
func (q *request) bridgeSchema() (*schemaNode, error) {
	schema := &schemaNode{}
	err := q.get("getBridgeSchema", nil, schema)
	if e, ok := errors.AsType[*apiError](err); ok && slices.Contains([]string{"NOT_FOUND", "NOT_SUPPORTED"}, e.Code) {
		return schema, nil
	}
	return schema, err
}

func viewBridgeConfig(q *request) (view, error) {
	d, isPosted := q.result.(*bridgeDraft)
	if !isPosted {
		if q.failure != nil { // the stored configuration must not take the place of the posted one
			return nil, q.failure
		}
		var err error
		if d, err = q.storedBridgeDraft(); err != nil {
			return nil, err
		}
	}
	id := q.params["bridgeId"]
	v := &bridgeConfigView{ID: id, Tests: d.tests, Editor: d.editor(q), Back: link{Text: q.t("back.bridge"), To: q.inBroker("bridges/" + url.PathEscape(id))}}
	v.Title, v.Sample, v.Preview = q.t("bridges.config.of", show(id)), q.sampleForm().Fields, d.previews
	if d.previews != nil {
		v.Count = q.t("bridges.preview.count", len(d.previews))
	}
	if v.Editor.AsJSON {
		v.Members = d.form.schema.allMembers()
	}
	return v, nil
}

// storedBridgeDraft returns the draft of the stored configuration.
func (q *request) storedBridgeDraft() (*bridgeDraft, error) {
	var config []byte
	if err := q.get("getBridgeConfig", nil, &config); err != nil {
		return nil, err
	}
	schema, err := q.bridgeSchema()
	return &bridgeDraft{schemaDraft: q.readDraft(schema, config)}, err
}

// editBridgeConfig applies the button of the form to the configuration.
func editBridgeConfig(q *request) (string, error) {
	schema, err := q.bridgeSchema()
	if err != nil {
		return "", err
	}
	d := &bridgeDraft{schemaDraft: q.postedSchemaDraft(schema)}
	q.result = d
	if err := d.problem(q); err != nil {
		return "", err
	}
	do, pointer, _ := strings.Cut(q.posted("step"), ":")
	switch config := json.RawMessage(writeJSON(d.document)); do {
	case "save":
		id := q.params["bridgeId"]
		return done(q.inBroker("bridges/"+url.PathEscape(id)), "bridge_saved", id), q.do("setBridgeConfig", nil, config)
	case "test":
		d.tests = []bridgeConnection{}
		if _, err := q.perform("testBridge", q.params, nil, config, &d.tests); err != nil {
			return "", err
		}
	case "preview":
		if err := q.previewBridge(d, config); err != nil {
			return "", err
		}
	default:
		d.apply(do, pointer)
	}
	return "", errShow
}

// sampleForm has the fields of the message whose preview is shown.
func (q *request) sampleForm() form {
	f := q.publishForm()
	f.Fields = slices.DeleteFunc(f.Fields, func(f field) bool { return f.Name == "expiry" })
	for i := range f.Fields {
		if f.Fields[i].Name != "userProperties" {
			f.Fields[i].Hint = ""
		}
	}
	return f
}

// previewBridge adds what the sample message becomes to a draft.
func (q *request) previewBridge(d *bridgeDraft, config json.RawMessage) error {
	body, bad := publishBody(q.sampleForm(), q.http.PostForm)
	if bad != nil {
		return q.invalid(fieldName(bad.Field), q.t(bad.Message))
	}
	body["config"] = config
	previews := []bridgePreview{}
	_, err := q.perform("previewBridge", q.params, nil, body, &previews)
	if e, ok := errors.AsType[*apiError](err); ok {
		for i, f := range e.Info.Errors {
			if rest, ok := strings.CutPrefix(f.Field, "body.config"); ok {
				e.Info.Errors[i].Field = "body" + rest
			}
		}
	}
	if err == nil {
		d.previews = previews
	}
	return err
}
