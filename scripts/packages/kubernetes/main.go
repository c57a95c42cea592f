// Kubernetes checks a manifest for Kubernetes: every document must be of a kind that is known here and
// have only fields of that kind. Of the containers it prints image, ports and probes.
//
//	kubernetes FILE
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = check(os.Stdout, text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

func check(out io.Writer, text []byte) error {
	for n, document := range bytes.Split(text, []byte("\n---\n")) {
		if err := checkDocument(out, document); err != nil {
			return fmt.Errorf("document %d: %w", n+1, err)
		}
	}
	return nil
}

func checkDocument(out io.Writer, text []byte) error {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &head); err != nil {
		return err
	}
	switch head.APIVersion + " " + head.Kind {
	case "v1 Service":
		return decode(text, &core.Service{})
	case "apps/v1 StatefulSet":
		var set apps.StatefulSet
		if err := decode(text, &set); err != nil {
			return err
		}
		printContainers(out, set.Spec.Template.Spec.Containers)
		return nil
	}
	return fmt.Errorf("a %s of %s is not known", head.Kind, head.APIVersion)
}

// decode decodes a document as Kubernetes does: with the fields of its kind only, in their spelling, and
// none twice.
func decode(text []byte, into any) error {
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	wrong, err := json.UnmarshalStrict(converted, into)
	return errors.Join(append(wrong, err)...)
}

func printContainers(out io.Writer, containers []core.Container) {
	for _, c := range containers {
		fmt.Fprintln(out, "image", c.Image)
		for _, p := range c.Ports {
			fmt.Fprintln(out, "port", p.Name, p.ContainerPort)
		}
		for _, v := range c.VolumeMounts {
			fmt.Fprintln(out, "volume", v.MountPath)
		}
		for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p != nil && p.HTTPGet != nil {
				fmt.Fprintln(out, "probe", p.HTTPGet.Path, p.HTTPGet.Port.String())
			}
		}
	}
}
