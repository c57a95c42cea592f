package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The bounds of a YAML document, whose aliases may expand to any size.
const (
	maxNodes = 1 << 20
	maxDepth = 100
)

// yamlReader counts the nodes that it has read, and how deep it is.
type yamlReader struct{ nodes, depth int }

// readDocument returns the value of a document in JSON or YAML.
func readDocument(text []byte) (any, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if value, err := decodeJSON(text); err == nil {
		return value, nil
	}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("is neither JSON nor YAML: %w", err)
	}
	if d.Decode(new(yaml.Node)) == nil {
		return nil, errors.New("has more than one document")
	}
	return new(yamlReader).value(&doc)
}

// value returns a node as a JSON value. Times stay texts.
func (r *yamlReader) value(n *yaml.Node) (any, error) {
	r.nodes++
	r.depth++
	defer func() { r.depth-- }()
	if r.nodes > maxNodes || r.depth > maxDepth {
		return nil, errors.New("is too large or too deep")
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0])
	case yaml.AliasNode:
		return r.value(n.Alias)
	case yaml.MappingNode:
		return r.object(n)
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			v, err := r.value(c)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return yamlScalar(n)
}

func (r *yamlReader) object(n *yaml.Node) (any, error) {
	object := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" {
			return nil, fmt.Errorf("line %d: the name of a member must be a text", name.Line)
		}
		if _, twice := object[name.Value]; twice {
			return nil, fmt.Errorf("line %d: %q is there twice", name.Line, name.Value)
		}
		v, err := r.value(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		object[name.Value] = v
	}
	return object, nil
}

func yamlScalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value), nil
		}
		var f float64
		if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("line %d: %s is not a number of JSON", n.Line, n.Value)
		}
		return json.Number(strconv.FormatFloat(f, 'f', -1, 64)), nil
	}
	return n.Value, nil
}
