package main

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"signalbox/router/appliance"
)

// example describes every key; a test compares it with the configuration.
//
//go:embed config.example.yaml
var example []byte

// addKeyFlags adds a flag for every key except secrets and lists. The commands for this
// machine accept them, since they need to find the data directory or the service; only the
// help of serve shows them.
func addKeyFlags(flags *pflag.FlagSet) {
	for key, t := range settings(reflect.TypeFor[appliance.Config](), "", map[string]reflect.Type{}) {
		// A secret is no flag: all users of the machine can read the arguments of a process.
		if appliance.IsSecret(key) || t.Kind() == reflect.Slice {
			continue
		}
		flags.String(key, "", "environment "+envName(key))
		flags.Lookup(key).Hidden = true
	}
}

// setting is a key in config.example.yaml.
type setting struct{ key, value, about string }

// group returns the parent of the key, as in "broker".
func (s setting) group() string {
	name, _, below := strings.Cut(s.key, ".")
	if !below {
		return "general"
	}
	return name
}

// describe returns all keys in the order of the example. A key without a comment has
// that of the one before it, or of its parent.
func describe(text []byte) ([]setting, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read config.example.yaml: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return below(doc.Content[0], "", ""), nil
}

func below(node *yaml.Node, prefix, about string) (all []setting) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if comment := firstSentence(name.HeadComment); comment != "" {
			about = comment
		}
		if value.Kind == yaml.MappingNode {
			all = append(all, below(value, prefix+name.Value+".", about)...)
		} else {
			all = append(all, setting{prefix + name.Value, value.Value, about})
		}
	}
	return all
}

// firstSentence returns the first sentence of a comment, on one line, of the last
// paragraph before the key.
func firstSentence(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	text := strings.Join(strings.Fields(strings.ReplaceAll("\n"+paragraphs[len(paragraphs)-1], "\n#", " ")), " ")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end+1]
	}
	return strings.TrimSuffix(text, ".")
}

// serveUsage shows the flags of serve in groups, one per line.
func serveUsage(cmd *cobra.Command) error {
	all, err := describe(example)
	if err != nil {
		return err
	}
	out := cmd.OutOrStderr()
	fmt.Fprintf(out, "Usage:\n  signalbox serve [flags]\n\nEach flag is also a key of the configuration file and a variable of the environment:\nhttp.listen, --http.listen, %s. Secrets and lists have no flags.\n\nFlags:\n", envName("http.listen"))
	fmt.Fprintf(out, "  --config file  configuration file (YAML)\n  --help         show this help\n")
	last := ""
	for _, s := range all {
		f := cmd.Flags().Lookup(s.key)
		if f == nil {
			continue
		}
		if g := s.group(); g != last {
			fmt.Fprintf(out, "\n%s:\n", g)
			last = g
		}
		fmt.Fprintf(out, "  --%s %s  %s%s\n", s.key, typeName(s.key), s.about, defaultText(s.value))
	}
	return nil
}

// defaultText returns the default to show, "" for none.
func defaultText(value string) string {
	if value == "" {
		return ""
	}
	return " (default " + value + ")"
}

// typeName returns the name of the type of a key's value.
func typeName(key string) string {
	switch t := settings(reflect.TypeFor[appliance.Config](), "", map[string]reflect.Type{})[key]; {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() == reflect.String:
		return "string"
	}
	return "int"
}
