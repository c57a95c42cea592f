package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"signalbox/router/site"
)

// exported has the flags of the command that writes declared state.
type exported struct {
	place
	*tree
	file, output string
	schema       bool
}

// exportCommand writes what a service has as a file for apply.
func (t *tree) exportCommand() *cobra.Command {
	x := &exported{tree: t}
	cmd := &cobra.Command{Use: "export", Short: "Write projects and brokers as a file of declared state", Args: cobra.NoArgs, GroupID: group,
		Long: wrap("Writes projects with their members and brokers, and of each broker access control, streams and bridges, as a file for \"signalbox apply\". With --project or --broker it has these only. Passwords are not part of it; secrets of connections and bridges are references to variables of the environment.")}
	x.add(cmd, t)
	cmd.Flags().StringVarP(&x.file, "file", "f", "-", "`FILE` to write, which must not exist; - is standard output")
	cmd.Flags().StringVarP(&x.output, "output", "o", asYAML, "`FORMAT`: "+asYAML+" or "+asJSON)
	cmd.Flags().BoolVar(&x.schema, "schema", false, "Print the JSON Schema of the file instead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return interruptedAs(cmd, x.run(cmd)) }
	return cmd
}

func (x *exported) run(cmd *cobra.Command) error {
	if x.output != asYAML && x.output != asJSON {
		return usage("--output: must be %s or %s", asYAML, asJSON)
	}
	if x.schema {
		_, err := cmd.OutOrStdout().Write(site.Schema)
		return err
	}
	s, err := x.connect(&x.connection)
	if err != nil {
		return err
	}
	left := 0
	document, err := site.Export(cmd.Context(), &caller{session: s, limit: x.timeout}, x.place.project, x.place.broker, func(part string, err error) {
		left++
		fmt.Fprintf(cmd.ErrOrStderr(), "signalbox: left out: %s of %s\n", part, printable(err.Error()))
	})
	if err != nil {
		return explained(err)
	}
	text, err := encodeDocument(document, x.output)
	if err != nil {
		return err
	}
	if x.file != "-" {
		err = writeNew(x.file, text)
	} else {
		_, err = cmd.OutOrStdout().Write(text)
	}
	if err == nil && left > 0 {
		return &failure{code: CodePartly, err: fmt.Errorf("%d parts could not be read and are not in the file", left)}
	}
	return err
}

// encodeDocument returns a document as JSON or YAML.
func encodeDocument(d *site.Document, format string) ([]byte, error) {
	if format == asYAML {
		text, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		return yamlText(text)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// writeNew writes a file that must not exist.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return &failure{code: CodeConflict, err: fmt.Errorf("%s exists; choose another name, or remove it first", name)}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
