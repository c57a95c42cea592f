package mapping_test

import (
	"errors"
	"strings"
	"testing"

	"signalbox/broker/bridges/mapping"
)

func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		escape             mapping.Escape
		text, payload, out string
	}{
		{mapping.EscapeNone, "plain", "", "plain"},
		{mapping.EscapeNone, "", "", ""},
		{mapping.EscapeNone, "${topic[0]}-${ qos | raw }${retain}", "", "plant-1true"},
		{mapping.EscapeNone, "$${topic} $$ $ {} ${topic[-1]}", "", "${topic} $$ $ {} speed"},
		{mapping.EscapeNone, "${payload|base64}", "\xff\x00", "/wA="},
		{mapping.EscapeNone, "${topic|base64} ${topic|url} ${topic|path}", "", "cGxhbnQvaGFsbCAzL3NwZWVk plant%2Fhall%203%2Fspeed plant/hall%203/speed"},
		{mapping.EscapeNone, "${payload|json} ${timestamp} ${userProperties.none}", "\x7f\t", `"\u007F\u0009" 2023-11-14T22:13:20.123Z `},
		{mapping.EscapeNone, `${jsonPayload["}|"]}`, `{"}|":3}`, "3"},
		{mapping.EscapeNone, `${jsonPayload["|"]|json}`, `{"|":"x"}`, `"x"`},
		{mapping.EscapePath, "/v1/${topic[1]}?q=${payload}", "a&b=+%/é", "/v1/hall%203?q=a%26b%3D%2B%25%2F%C3%A9"},
		{mapping.EscapePath, "${topic|raw}", "", "plant/hall 3/speed"},
		{mapping.EscapeJSON, `{"t":${topic},"p":${payload},"n":${jsonPayload.n},"z":${userProperties.none}}`, `{"n":1.5}`, `{"t":"plant/hall 3/speed","p":"{\"n\":1.5}","n":1.5,"z":null}`},
		{mapping.EscapeJSON, `{"text":"${userProperties["a b"]}: \"${payload}\" ${jsonPayload.o} ${qos|json}"}`, `{"o":"\n"}`, `{"text":"\"quoted\": \"{\"o\":\"\\n\"}\" \n 1"}`},
		{mapping.EscapeJSON, `{"p":${payload|raw}}`, `[1]`, `{"p":[1]}`},
		{mapping.EscapeJSON, `{"p":"${payload|base64}"}`, "\xff", `{"p":"/w=="}`},
		{mapping.EscapeJSON, `{"p":"${payload}"}`, "\xff", `{"p":"/w=="}`},
		{mapping.EscapeJSON, `[1,"$${"]`, "", `[1,"${"]`},
	} {
		tpl, err := mapping.ParseTemplate(c.text, c.escape)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got, err := tpl.Append([]byte("<"), example(t, c.payload))
		if err != nil || string(got) != "<"+c.out {
			t.Errorf("%s: got %s, %v, want <%s", c.text, got, err, c.out)
		}
		if got, want := tpl.Constant(), !strings.Contains(strings.ReplaceAll(c.text, "$${", ""), "${"); got != want {
			t.Errorf("%s: got constant %t, want %t", c.text, got, want)
		}
	}
}

func TestTemplatesRefused(t *testing.T) {
	for _, text := range []string{"${", "${topic", "${}", "${topics}", "${topic|upper}", "${topic|}", `${jsonPayload["}`, strings.Repeat("a", 70_000)} {
		for _, e := range []mapping.Escape{mapping.EscapeNone, mapping.EscapePath, mapping.EscapeJSON} {
			if _, err := mapping.ParseTemplate(text, e); err == nil {
				t.Errorf("%.30q: got a template, want an error", text)
			}
		}
	}
	for _, text := range []string{"", "{", `{"a":${topic|raw}}`, `{"a":${topic} ${qos}}`, `{"a":"${topic}}`, `{"a":${jsonPayload.x|raw}}`} {
		if _, err := mapping.ParseTemplate(text, mapping.EscapeJSON); err == nil {
			t.Errorf("%s: got a template, want an error", text)
		}
	}
}

func TestTemplatesUnfit(t *testing.T) {
	for _, c := range []struct{ text, payload string }{
		{`{"a":${jsonPayload.x}}`, "text"}, {`{"a":${payload|raw}}`, "text"}, {`{"a":"${payload|raw}"}`, `"`}, {`{"a":${payload|raw}}`, `1,"b":2`[:3]},
	} {
		tpl, err := mapping.ParseTemplate(c.text, mapping.EscapeJSON)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		out, err := tpl.Append(nil, example(t, c.payload))
		if _, ok := errors.AsType[*mapping.Unfit](err); !ok {
			t.Errorf("%s of %q: got %s, want it to be unfit", c.text, c.payload, out)
		}
	}
}
