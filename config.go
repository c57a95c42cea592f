package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"signalbox/router/appliance"
	"signalbox/router/cli"
)

// settings returns every key of a configuration with the type of its value.
func settings(t reflect.Type, prefix string, into map[string]reflect.Type) map[string]reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		key := prefix + f.Tag.Get("mapstructure")
		if strings.HasSuffix(key, "-") {
			continue // not configurable
		}
		if f.Type.Kind() == reflect.Struct {
			settings(f.Type, key+".", into)
		} else {
			into[key] = f.Type
		}
	}
	return into
}

const envPrefix = "SIGNALBOX_"

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// loadConfig composes the configuration: flags over environment over file over
// defaults. Its error names every key that is unknown or has an invalid value.
func loadConfig(flags *pflag.FlagSet, environ []string) (appliance.Config, error) {
	v, known := viper.New(), settings(reflect.TypeFor[appliance.Config](), "", map[string]reflect.Type{})
	if file, err := flags.GetString("config"); err == nil && file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return appliance.Config{}, fmt.Errorf("configuration file %s: %w", file, err)
		}
	}
	var errs []error
	for _, key := range v.AllKeys() {
		if known[key] == nil {
			errs = append(errs, fmt.Errorf("%s: there is no such key", key))
		}
	}
	errs = append(errs, setEnv(v, known, environ)...)
	flags.Visit(func(f *pflag.Flag) {
		if t := known[f.Name]; t != nil {
			errs = append(errs, set(v, f.Name, "--"+f.Name, t, f.Value.String()))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return appliance.Config{}, err
	}
	c := appliance.DefaultConfig()
	if err := v.UnmarshalExact(&c, strict); err != nil {
		return appliance.Config{}, fmt.Errorf("configuration: %w", err)
	}
	return c, c.Validate()
}

// forClients are the variables that the commands read which call the API.
var forClients = []string{cli.URLVariable, cli.TokenVariable, cli.ContextVariable}

// fromKubernetes are the prefixes of the variables that Kubernetes sets for a service
// of our name.
var fromKubernetes = []string{envPrefix + "SERVICE_", envPrefix + "PORT"}

func setEnv(v *viper.Viper, known map[string]reflect.Type, environ []string) []error {
	keys := map[string]string{}
	for key := range known {
		keys[envName(key)] = key
	}
	var errs []error
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		ours := strings.HasPrefix(name, envPrefix) && !slices.Contains(forClients, name)
		key, found := keys[name]
		switch {
		case found:
			errs = append(errs, set(v, key, name, known[key], value))
		case ours && !slices.ContainsFunc(fromKubernetes, func(p string) bool { return strings.HasPrefix(name, p) }):
			errs = append(errs, fmt.Errorf("%s: there is no such setting", name))
		}
	}
	return errs
}

// set parses a value from text.
func set(v *viper.Viper, key, name string, t reflect.Type, text string) error {
	switch {
	case t == reflect.TypeFor[time.Duration](), t.Kind() == reflect.String:
		v.Set(key, text)
	case t.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%s: must be true or false", name)
		}
		v.Set(key, b)
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || reflect.Zero(t).CanInt() && reflect.Zero(t).OverflowInt(n) {
			return fmt.Errorf("%s: must be a whole number of at most %d bits", name, t.Bits())
		}
		v.Set(key, n)
	case t == reflect.TypeFor[[]string]():
		v.Set(key, strings.FieldsFunc(text, func(r rune) bool { return r == ',' }))
	default:
		return fmt.Errorf("%s: can only be set in the configuration file", name)
	}
	return nil
}

// strict makes decoding refuse values of another type, except for one text in place of
// a list, numbers that this machine's integers cannot represent, and durations without
// a unit.
func strict(c *mapstructure.DecoderConfig) {
	c.WeaklyTypedInput = false
	c.DecodeHook = func(from, to reflect.Type, value any) (any, error) {
		if one, ok := value.(string); ok && to == reflect.TypeFor[[]string]() {
			return []string{one}, nil
		}
		if n := reflect.ValueOf(value); n.CanInt() && to.Kind() == reflect.Int && reflect.Zero(to).OverflowInt(n.Int()) {
			return nil, fmt.Errorf("%d is too large for this machine", n.Int())
		}
		if to != reflect.TypeFor[time.Duration]() || from == to {
			return value, nil
		}
		text, ok := value.(string)
		if !ok {
			return nil, errors.New("a duration needs a unit, as in 30s")
		}
		return time.ParseDuration(text)
	}
}
