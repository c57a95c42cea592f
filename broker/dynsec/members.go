package dynsec

import (
	"encoding/json"
	"strings"
)

// Members returns the members of the object as values of encoding/json, by their names in lower
// case; of several with one name the first, which is the one that counts.
func (o Object) Members() map[string]any {
	members, _ := orNull(o.v).plain().(map[string]any)
	return members
}

// plain returns the value as one of encoding/json.
func (v *value) plain() any {
	switch v.kind {
	case boolKind:
		return v.truth
	case numberKind:
		return json.Number(v.text)
	case textKind:
		return v.text
	case arrayKind:
		list := make([]any, len(v.items))
		for i := range v.items {
			list[i] = v.items[i].plain()
		}
		return list
	case objectKind:
		members := make(map[string]any, len(v.members))
		for i := range v.members {
			m := &v.members[i]
			name := strings.ToLower(m.name)
			if _, given := members[name]; !given {
				members[name] = m.value.plain()
			}
		}
		return members
	}
	return nil
}
