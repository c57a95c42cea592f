// Command image makes an image for containers from the program: an OCI layout, and a tar
// archive for "docker load". The same input has the same digest.
//
//	image -program FILE -arch ARCH -version VERSION -created TIME -layout DIRECTORY -archive FILE
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user of the image: one that no system has, so that a process that leaves
// the container has no rights.
const user = 65532

const dataDir = "/var/lib/signalbox"

// options are the arguments.
type options struct{ program, arch, version, created, layout, archive string }

func main() {
	var o options
	flag.StringVar(&o.program, "program", "", "the program, static")
	flag.StringVar(&o.arch, "arch", "amd64", "its processor, as GOARCH names it")
	flag.StringVar(&o.version, "version", "", "its version")
	flag.StringVar(&o.created, "created", "1970-01-01T00:00:00Z", "the time of the image, RFC 3339")
	flag.StringVar(&o.layout, "layout", "", "the directory to write an OCI layout to")
	flag.StringVar(&o.archive, "archive", "", "the file to write a tar archive to")
	flag.Parse()
	digest, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// run makes the image and returns its digest.
func run(o options) (digest v1.Hash, err error) {
	created, err := time.Parse(time.RFC3339, o.created)
	if err != nil {
		return digest, err
	}
	files, err := fileSystem(o.program, created)
	if err != nil {
		return digest, err
	}
	image, err := build(files, o, created.UTC())
	if err != nil {
		return digest, err
	}
	return write(image, o)
}

// build returns the image of a file system.
func build(files []byte, o options, created time.Time) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "scripts/release"}})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", o.arch, v1.Time{Time: created}
	if o.arch == "arm" {
		file.Variant = "v7"
	}
	file.Config = config(o.version)
	return mutate.ConfigFile(image, file)
}

// config is how the program runs in a container: reachable from outside of it, and with
// its data in a volume.
func config(version string) v1.Config {
	return v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), WorkingDir: dataDir,
		Entrypoint: []string{"/signalbox"}, Cmd: []string{"serve"},
		Env:          []string{"SIGNALBOX_DATA_DIR=" + dataDir, "SIGNALBOX_HTTP_LISTEN=:8080", "SIGNALBOX_BROKER_LISTEN=:1883"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "1883/tcp": {}},
		Volumes:      map[string]struct{}{dataDir: {}},
		Healthcheck:  &v1.HealthConfig{Test: []string{"CMD", "/signalbox", "healthcheck"}, Interval: 30 * time.Second, Timeout: 10 * time.Second, StartPeriod: time.Minute, Retries: 3},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{"org.opencontainers.image.title": "signalbox", "org.opencontainers.image.version": version,
			"org.opencontainers.image.licenses": "Apache-2.0"},
	}
}

// fileSystem returns a tar archive of all files: the program, and directories to write to.
func fileSystem(program string, changed time.Time) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(h tar.Header, body []byte) error {
		h.ModTime, h.Size, h.Format = changed, int64(len(body)), tar.FormatUSTAR
		headErr := w.WriteHeader(&h)
		_, bodyErr := w.Write(body)
		return errors.Join(headErr, bodyErr)
	}
	dir := func(name string, mode int64, owner int) tar.Header {
		return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner}
	}
	errs := errors.Join(
		add(tar.Header{Typeflag: tar.TypeReg, Name: "signalbox", Mode: 0o755}, text),
		add(dir("tmp/", 0o1777, 0), nil),
		add(dir("var/", 0o755, 0), nil), add(dir("var/lib/", 0o755, 0), nil),
		add(dir("var/lib/signalbox/", 0o700, user), nil),
		w.Close())
	return archive.Bytes(), errs
}

// write writes the image where the options say, and returns its digest.
func write(image v1.Image, o options) (digest v1.Hash, err error) {
	if digest, err = image.Digest(); err != nil {
		return digest, err
	}
	tag, err := name.NewTag("signalbox:" + o.version)
	if err != nil {
		return digest, err
	}
	if o.layout != "" {
		path, err := layout.Write(o.layout, empty.Index)
		if err != nil {
			return digest, err
		}
		names := map[string]string{"org.opencontainers.image.ref.name": o.version}
		if err := path.AppendImage(image, layout.WithAnnotations(names)); err != nil {
			return digest, err
		}
	}
	if o.archive != "" {
		err = tarball.WriteToFile(o.archive, tag, image)
	}
	return digest, err
}
