package appliance

import (
	"net/url"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// IsSecret reports whether a key of the configuration has a secret.
func IsSecret(key string) bool {
	return strings.HasSuffix(key, "password") || strings.HasSuffix(key, "token") || strings.HasSuffix(key, "secret")
}

// Effective returns every key of the configuration with its value as YAML, without secrets.
func (c Config) Effective() ([]byte, error) { return yaml.Marshal(effective(reflect.ValueOf(c), "")) }

// effective returns a value of the configuration as YAML has it, without secrets.
func effective(v reflect.Value, key string) any {
	switch {
	case IsSecret(key) && !v.IsZero():
		return "***"
	case v.Type() == reflect.TypeFor[time.Duration]():
		return time.Duration(v.Int()).String()
	case v.Kind() == reflect.Struct:
		members := map[string]any{}
		for _, f := range reflect.VisibleFields(v.Type()) {
			if name := f.Tag.Get("mapstructure"); name != "" && name != "-" {
				members[name] = effective(v.FieldByIndex(f.Index), name)
			}
		}
		return members
	case v.Kind() == reflect.Slice:
		list := []any{}
		for _, e := range v.Seq2() {
			list = append(list, effective(e, ""))
		}
		return list
	case v.Kind() == reflect.String:
		return hostOnly(v.String())
	}
	return v.Interface()
}

// hostOnly returns a URL without what may admit its callers; any other text as it is.
func hostOnly(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.RequestURI() == "/" && u.User == nil {
		return text
	}
	return u.Scheme + "://" + u.Host + "/***"
}
