package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Secret is where a secret is: in a variable of the environment or in a file. A file with
// declarations has no secret itself.
type Secret struct {
	Env  string `json:"env,omitempty"`
	File string `json:"file,omitempty"`
}

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 64 << 10

// Secrets reads secrets.
type Secrets struct {
	// Variable returns a variable of the environment, "" if it is not set.
	Variable func(name string) string
}

// value returns the secret. The end of a file's last line is not part of it.
func (s Secrets) value(from Secret) (string, error) {
	if from.Env != "" {
		if v := s.Variable(from.Env); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the variable %s of the environment, which holds a secret, is not set", from.Env)
	}
	f, err := os.Open(from.File)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxSecret {
		return "", fmt.Errorf("%s has more than %d bytes, which is not a secret", from.File, maxSecret)
	}
	v := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if v == "" {
		return "", fmt.Errorf("%s, which should hold a secret, is empty", from.File)
	}
	return v, nil
}

// masked is what the API returns in the place of a secret of a bridge, and accepts for the
// stored one.
const masked = "********"

// walk returns a value in which replace was applied to each object and each text.
func walk(value any, replace func(any) (any, error)) (any, error) {
	value, err := replace(value)
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range sorted(v) { // what replace counts has the same number every time
			if v[name], err = walk(v[name], replace); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = walk(v[i], replace); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// reference returns the secret that an object of a configuration refers to.
func reference(value any) (s Secret, ok bool) {
	object, isObject := value.(map[string]any)
	if !isObject || len(object) != 1 {
		return s, false
	}
	s.Env, _ = object["$env"].(string)
	s.File, _ = object["$file"].(string)
	return s, s.Env != "" || s.File != ""
}

// hide returns a configuration as the API returns it, with the present one of the service: a
// secret is masked there and cannot be compared, neither one that is referred to nor one that is
// in the file. What else is referred to is compared if it can be read.
func (s Secrets) hide(want, have json.RawMessage) (any, error) {
	value, err := decoded(want)
	if err != nil {
		return nil, err
	}
	present, err := decoded(have)
	if err != nil {
		return nil, err
	}
	return s.hideLike(value, present), nil
}

func (s Secrets) hideLike(want, have any) any {
	if from, ok := reference(want); ok {
		text, isText := have.(string)
		if !isText || text == masked {
			return masked
		}
		if v, err := s.value(from); err == nil {
			return v
		}
		return have
	}
	switch want := want.(type) {
	case string:
		if have == masked && want != "" {
			return masked
		}
	case map[string]any:
		present, _ := have.(map[string]any)
		for name, v := range want {
			want[name] = s.hideLike(v, present[name])
		}
	case []any:
		present, _ := have.([]any)
		for i, v := range want {
			var old any
			if i < len(present) {
				old = present[i]
			}
			want[i] = s.hideLike(v, old)
		}
	}
	return want
}

// reveal returns a configuration with the secrets that it refers to.
func (s Secrets) reveal(config json.RawMessage) (any, error) {
	value, err := decoded(config)
	if err != nil {
		return nil, err
	}
	return walk(value, func(v any) (any, error) {
		if from, ok := reference(v); ok {
			return s.value(from)
		}
		return v, nil
	})
}

// refer returns a configuration in which masked secrets are references to variables of the
// environment, whose names variable returns by their numbers.
func refer(config json.RawMessage, variable func(n int) string) (json.RawMessage, error) {
	value, err := decoded(config)
	if err != nil {
		return nil, err
	}
	n := 0
	value, err = walk(value, func(v any) (any, error) {
		if v != masked {
			return v, nil
		}
		n++
		return map[string]any{"$env": variable(n)}, nil
	})
	return must(json.Marshal(value)), err
}

func decoded(text json.RawMessage) (value any, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, errors.New("a configuration is not JSON")
	}
	return value, nil
}

func must(text []byte, err error) json.RawMessage {
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return text
}
