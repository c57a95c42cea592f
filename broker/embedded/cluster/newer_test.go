package cluster

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestNewerNeighbour reads what a newer release may send: members that this one does not know are
// ignored, and a format or an order that it does not know is refused.
func TestNewerNeighbour(t *testing.T) {
	t.Parallel()
	var p peerStatus
	if err := json.Unmarshal([]byte(`{"version": "v9", "applied": 7, "seeded": true, "later": {"a": 1}}`), &p); err != nil || p.Version != "v9" || p.Applied != 7 || !p.Seeded {
		t.Errorf("a report of a node: %+v, %v", p, err)
	}
	known, err := newClusterState(spec(1, 1, 2))
	must(t, err)
	more := strings.Replace(string(known.encode()), "{", `{"later": [1], `, 1)
	if s, err := decodeState([]byte(more)); err != nil || s.UUID != known.UUID || len(s.Members) != 2 {
		t.Errorf("a state: %+v, %v", s, err)
	}
	newer := *known
	newer.Format = stateFormat + 1
	if _, err := decodeState(newer.encode()); err == nil {
		t.Error("a state of a newer format was read")
	}
	for text, ok := range map[string]bool{
		`{"format": 1, "op": "remove", "later": 1}`: true,
		`{"format": 1, "op": "later"}`:              false,
		`{"format": 99, "op": "remove"}`:            false,
	} {
		if _, err := decodeOrder([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
