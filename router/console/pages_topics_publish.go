package console

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"unicode"
)

// messagesView publishes a message, and shows those that are published.
type messagesView struct {
	frame
	Form    form
	Events  string // link to the stream of messages
	Filters string // of those that are listened for, one per line
}

func viewMessages(q *request) (view, error) {
	v := &messagesView{Form: q.publishForm(), Events: q.brokerAPI("messages/events"), Filters: cmp.Or(strings.Join(q.query["filter"], "\n"), "#")}
	v.Done, v.Form.Part = q.shown, "messages" // or listening would end
	return v, nil
}

func (q *request) publishForm() form {
	f := q.newForm("publish", "publish.submit", q.labelled("publish",
		field{Name: "topic", Kind: kindText, Required: true, Value: q.query.Get("topic")},
		field{Name: "payload", Kind: kindLong},
		field{Name: "encoding", Kind: kindSelect, Value: "text", Options: []option{
			{"text", q.t("broker.payload.text")}, {"json", q.t("broker.payload.json")}, {"hex", q.t("broker.payload.hex")}, {"base64", q.t("broker.payload.base64")}}},
		field{Name: "qos", Kind: kindSelect, Value: "0", Options: qosOptions},
		field{Name: "retain", Kind: kindCheckbox},
		field{Name: "expiry", Kind: kindNumber, Min: "0", Max: "4294967295"},
		field{Name: "contentType", Kind: kindText},
		field{Name: "responseTopic", Kind: kindText},
		field{Name: "correlationData", Kind: kindText},
		field{Name: "userProperties", Kind: kindLines})...)
	f.Fold = fold{Title: q.t("listen.properties"), First: "expiry"}
	return f
}

// publishBody returns the body of publish for the posted form. The API takes text and
// base64; what is written as hexadecimal is converted, and JSON is checked.
func publishBody(f form, posted url.Values) (map[string]any, *fieldError) {
	body := numbers(f.body(posted), "qos")
	payload, _ := body["payload"].(string)
	switch posted.Get("encoding") {
	case "hex":
		b, err := hex.DecodeString(withoutSpace(payload))
		if err != nil {
			return nil, &fieldError{Field: "body.payload", Message: "publish.not_hex"}
		}
		body["payload"], body["encoding"] = base64.StdEncoding.EncodeToString(b), "base64"
	case "base64":
		body["payload"] = withoutSpace(payload)
	case "json":
		if !json.Valid([]byte(payload)) {
			return nil, &fieldError{Field: "body.payload", Message: "publish.not_json"}
		}
		body["encoding"] = "text"
	}
	properties, bad := userProperties(posted.Get("userProperties"))
	if delete(body, "userProperties"); len(properties) > 0 {
		body["userProperties"] = properties
	}
	return body, bad
}

// withoutSpace returns a text without the spaces and line ends between its characters.
func withoutSpace(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// userProperties reads one property per line: its name, an equals sign and its value.
func userProperties(text string) ([]map[string]string, *fieldError) {
	var list []map[string]string
	for _, line := range lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, &fieldError{Field: "body.userProperties", Message: "publish.not_property"}
		}
		list = append(list, map[string]string{"name": name, "value": value})
	}
	return list, nil
}

// publish leaves the form as it is, so that the message can be repeated or changed.
func publish(q *request) (string, error) {
	body, bad := publishBody(q.publishForm(), q.http.PostForm)
	if bad != nil {
		return "", q.invalid(fieldName(bad.Field), q.t(bad.Message))
	}
	if err := q.do("publish", nil, body); err != nil {
		return "", err
	}
	q.shown = q.t("publish.done", show(q.posted("topic")))
	return "", errShow
}
