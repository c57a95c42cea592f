package topictree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// The bounds of what numbers reads. That of a number leaves sums and differences finite.
const (
	maxNumberPayload = 64 << 10 // in bytes
	maxMemberName    = 128      // in bytes, with the dots
	maxMemberDepth   = 3
	maxNumber        = 1e300
)

// numbers calls add with each number of a payload: itself, with an empty name, or those of the
// members of a JSON object and of objects in it, in their order. Any other payload has none.
func numbers(payload []byte, add func(name string, v float64)) {
	text := bytes.TrimSpace(payload)
	switch {
	case len(payload) > maxNumberPayload || !json.Valid(text):
	case text[0] == '{':
		memberNumbers(text, "", 1, add)
	default:
		if v, ok := number(text); ok {
			add("", v)
		}
	}
}

// memberNumbers calls add with the numbers of a valid JSON object, whose members' names begin
// with a prefix.
func memberNumbers(object []byte, prefix string, depth int, add func(name string, v float64)) {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // the brace
	for d.More() {
		var value json.RawMessage
		key, err := d.Token()
		if err != nil || d.Decode(&value) != nil {
			return
		}
		name := prefix + fmt.Sprint(key)
		if len(name) > maxMemberName {
			continue
		}
		if value[0] == '{' && depth < maxMemberDepth {
			memberNumbers(value, name+".", depth+1, add)
		} else if v, ok := number(value); ok {
			add(name, v)
		}
	}
}

// number returns the number that a valid JSON value is, unless it is out of bounds.
func number(value []byte) (float64, bool) {
	if c := value[0]; c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(value), 64)
	return v, err == nil && math.Abs(v) <= maxNumber
}
