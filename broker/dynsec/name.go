package dynsec

import "unicode/utf8"

// name returns a required name of a command, or the error missing or invalid.
func name(a arg[string], missing, invalid refusal) (string, error) {
	switch {
	case !a.good:
		return "", missing
	case !validName(a.value):
		return "", invalid
	}
	return a.value, nil
}

// newName is name for a record to create, whose name must not be empty.
func newName(a arg[string], missing, empty, invalid refusal) (string, error) {
	if a.good && a.value == "" {
		return "", empty
	}
	return name(a, missing, invalid)
}

// validName reports whether s can be a string in an MQTT packet: at most 65535 bytes of
// UTF-8 without U+0000 [MQTT-1.5.4-1, MQTT-1.5.4-2] and, as in Mosquitto, without the
// control and non-characters that MQTT 5.0 section 1.5.4 advises against.
func validName(s string) bool {
	if len(s) > maxTopicBytes || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < 0x20 || 0x7f <= r && r < 0xa0 || 0xfdd0 <= r && r <= 0xfdef || r&0xfffe == 0xfffe {
			return false
		}
	}
	return true
}
