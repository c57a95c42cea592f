package console

import "testing"

// TestSchemaForm_numbers checks which values the field of a number shows, and that each stays
// as it is: text that is no number stays in its field, but that of a number is no number.
func TestSchemaForm_numbers(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":5}}}`)
	for text, want := range map[string]schemaPart{
		`{"n":7}`:           {field: field{Kind: kindNumber, Value: "7"}},
		`{"n":1.50}`:        {field: field{Kind: kindNumber, Value: "1.50"}},
		`{"n":"many"}`:      {field: field{Kind: kindNumber, Value: "many"}},
		`{"n":"<b>"}`:       {field: field{Kind: kindNumber, Value: "<b>"}},
		`{"n":"5"}`:         {field: field{Kind: kindJSON, Value: `"5"`}},
		`{"n":" x"}`:        {field: field{Kind: kindJSON, Value: `" x"`}},
		`{"n":""}`:          {field: field{Kind: kindJSON, Value: `""`}},
		`{"n":"a\nb"}`:      {field: field{Kind: kindJSON, Value: `"a\nb"`}},
		`{"n":"\u0000"}`:    {field: field{Kind: kindJSON, Value: `"\u0000"`}},
		`{"n":true}`:        {field: field{Kind: kindJSON, Value: "true"}},
		`{"n":null}`:        {field: field{Kind: kindJSON, Value: "null"}},
		`{"n":[1]}`:         {field: field{Kind: kindJSON, Value: "[\n  1\n]"}},
		`{"n":{"a":"5"}}`:   {field: field{Kind: kindJSON, Value: "{\n  \"a\": \"5\"\n}"}},
		`{"other":"stays"}`: {field: field{Kind: kindNumber}},
	} {
		document, err := readJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := newTestForm(schema).fields(document)[0]
		if got.Kind != want.Kind || got.Value != want.Value || got.AsText != (want.Kind == kindNumber) {
			t.Errorf("%s is shown as %s %q, as text %t", text, got.Kind, got.Value, got.AsText)
		}
		if again, f := roundTrip(schema, document); string(writeJSON(again)) != text || len(f.errors) > 0 {
			t.Errorf("%s became %s, %v", text, writeJSON(again), f.errors)
		}
	}
	if got := newTestForm(schema).fields(&jsonObject{})[0].Hint; got != "schema.range 1 5" {
		t.Errorf("the hint is %q", got)
	}
}

// TestSchemaForm_choices checks that the values of an enumeration are exact, and that their
// labels are marked once.
func TestSchemaForm_choices(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, `{"type":"object","properties":{"n":{"enum":[12345678901234567890,1.50,"a\u202e"]}}}`)
	want := []option{{"", "schema.none"}, {"12345678901234567890", "12345678901234567890"}, {"1.50", "1.50"}, {"a\u202e", show("a\u202e")}}
	got := newTestForm(schema).fields(&jsonObject{})[0].Options
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("the choices are %q, want %q", got, want)
		}
	}
}
