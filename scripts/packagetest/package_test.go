package packagetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// program is that of this machine in a release.
const program = "signalbox-linux-amd64"

// TestCampaignRelease makes a release for all platforms, and checks each thing in it.
func TestCampaignRelease(t *testing.T) {
	need(t, "dpkg", "dpkg-deb", "rpm", "lintian", "skopeo", "minisign", "setpriv", "runuser", "curl", "ip", "mosquitto_pub", "/lib/systemd/systemd")
	keys := t.TempDir()
	key, public := filepath.Join(keys, "key"), filepath.Join(keys, "public")
	run(t, nil, "minisign", "-G", "-W", "-p", public, "-s", key)
	dist := filepath.Join(t.TempDir(), "dist")
	run(t, []string{"OUT=" + dist, "VERSION=v1.2.3", "MINISIGN_KEY=" + key}, filepath.Join(root, "scripts", "release"))
	for _, c := range []struct {
		name string
		test func(*testing.T, string)
	}{{"checksums", checksums}, {"bill of materials", billOfMaterials}, {"rpm", rpm}, {"deb", deb}, {"lintian", lintian}, {"image", image}, {"kubernetes", kubernetes}, {"platforms", allPlatforms}} {
		t.Run(c.name, func(t *testing.T) { c.test(t, dist) })
	}
	t.Run("signature", func(t *testing.T) { signature(t, dist, public) })
	t.Run("bundle", func(t *testing.T) { bundle(t, dist) })
	t.Run("systemd", func(t *testing.T) { systemd(t, dist, key, public) })
}

// systemd has a real systemd run the service under the unit of the package, and a program under a copy
// of that, which is upgraded to the next version, signed with the same key. Where root may not make
// control groups, nothing can be installed that helps.
func systemd(t *testing.T, dist, key, public string) {
	dir := t.TempDir()
	const controlGroup = `mount -t cgroup2 cgroup2 "$0"; mkdir "$0/signalbox-test-$$"; rmdir "$0/signalbox-test-$$"`
	if out, err := try(t, nil, "unshare", "--mount", "bash", "-ec", controlGroup, t.TempDir()); err != nil {
		t.Logf("the service was NOT run under systemd: control groups cannot be made: %v: %s", err, out)
		return
	}
	next, installed := filepath.Join(dir, "next"), filepath.Join(dir, "signalbox.deb")
	lines := strings.Fields(read(t, public))
	run(t, []string{"OUT=" + next, "VERSION=v1.2.4", "RELEASE_KEY=" + lines[len(lines)-1]}, filepath.Join(root, "scripts", "build"))
	run(t, nil, "minisign", "-S", "-s", key, "-m", next)
	run(t, nil, "ln", debOf(t, dist), installed)
	t.Log(run(t, nil, "unshare", "--mount", script("machine.sh"), t.TempDir(), script("systemd.sh"), installed, next, next+".minisig"))
}

// debOf returns the Debian package for this machine.
func debOf(t *testing.T, dist string) string { return only(t, dist, "*_amd64.deb") }

// bundle has the program verify the bundle with the key that was built in, and refuse one that
// was changed.
func bundle(t *testing.T, dist string) {
	file := filepath.Join(dist, program+".bundle.tar")
	listed := strings.Fields(run(t, nil, "tar", "-tf", file))
	if diff := cmp.Diff([]string{"SHA256SUMS", "SHA256SUMS.minisig"}, listed[:2]); diff != "" {
		t.Errorf("first entries (-want +got):\n%s", diff)
	}
	for _, name := range []string{program, program + ".minisig", program + ".oci.tar", program + ".sbom.cdx.json", program + ".licenses.txt",
		"signalbox_1.2.3-1_amd64.deb", "signalbox-1.2.3-1.x86_64.rpm", "manual/install.md", "CHANGELOG.md", "LICENSE"} {
		if !slices.Contains(listed, name) {
			t.Errorf("the bundle lacks %s: %q", name, listed)
		}
	}
	installed := filepath.Join(t.TempDir(), "signalbox")
	run(t, nil, "cp", filepath.Join(dist, program), installed)
	env := []string{"SIGNALBOX_DATA_DIR=" + filepath.Join(t.TempDir(), "data"), "SIGNALBOX_HTTP_LISTEN=127.0.0.1:0", "SIGNALBOX_BROKER_LISTEN=127.0.0.1:0"}
	startOnce(t, installed, env)
	for _, release := range []string{file, filepath.Join(dist, program)} {
		if got := run(t, env, installed, "upgrade", release); !strings.Contains(got, "is installed already") {
			t.Errorf("%s: got %s", release, got)
		}
	}
	changed := filepath.Join(t.TempDir(), "changed.tar")
	run(t, nil, "bash", "-c", `sed 's/docker run/docker RUN/' "$0" >"$1"`, file, changed)
	if out, err := try(t, env, installed, "upgrade", changed); err == nil || !strings.Contains(out, "another checksum") {
		t.Errorf("a changed bundle: %v, %s", err, out)
	}
}

// startOnce starts the service of a program, so that there is a data directory, and stops it.
func startOnce(t *testing.T, installed string, env []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), installed, "serve")
	cmd.Env = append(suite.Environment(), env...)
	p, err := process.Serve(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// TestCampaignReproducible builds the program in two directories.
func TestCampaignReproducible(t *testing.T) {
	run(t, nil, filepath.Join(root, "scripts", "release"), "--check", "linux/amd64")
}

// checksums finds that every file has one, and that a changed file is noticed.
func checksums(t *testing.T, dist string) {
	run(t, nil, "bash", "-c", `cd "$0" && sha256sum --check --strict --quiet SHA256SUMS`, dist)
	sums := read(t, filepath.Join(dist, "SHA256SUMS"))
	entries, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(sums, "  "+e.Name()+"\n") && !strings.HasPrefix(e.Name(), "SHA256SUMS") {
			t.Errorf("%s has no checksum", e.Name())
		}
	}
	if len(entries) < 45 {
		t.Errorf("the release has only %d files", len(entries))
	}
	wrong := filepath.Join(t.TempDir(), "SHA256SUMS")
	first, _, _ := strings.Cut(sums, "\n")
	write(t, wrong, string(sums[0]^1)+first[1:]+"\n")
	if out, err := try(t, nil, "bash", "-c", `cd "$0" && sha256sum --check --strict --quiet "$1"`, dist, wrong); err == nil {
		t.Errorf("a wrong checksum was accepted: %s", out)
	}
}

// signature verifies the signature with Debian's minisign, and that of changed checksums.
func signature(t *testing.T, dist, public string) {
	sums := filepath.Join(dist, "SHA256SUMS")
	if out := run(t, nil, "minisign", "-V", "-p", public, "-m", sums); !strings.Contains(out, "signalbox v1.2.3") {
		t.Errorf("the comment lacks the version: %s", out)
	}
	changed := filepath.Join(t.TempDir(), "SHA256SUMS")
	write(t, changed, read(t, sums)+"0")
	if out, err := try(t, nil, "minisign", "-V", "-p", public, "-m", changed, "-x", sums+".minisig"); err == nil {
		t.Errorf("changed checksums were accepted: %s", out)
	}
}

// billOfMaterials compares the files with what the program prints about itself.
func billOfMaterials(t *testing.T, dist string) {
	for flag, file := range map[string]string{"--sbom": program + ".sbom.cdx.json", "--licenses": program + ".licenses.txt"} {
		if diff := cmp.Diff(run(t, nil, filepath.Join(dist, program), "version", flag), read(t, filepath.Join(dist, file))); diff != "" {
			t.Errorf("%s (-program +file):\n%s", file, diff)
		}
	}
}

// contents are the files that both packages have, but for those below ownFiles.
var contents = []string{
	"/etc/signalbox/signalbox.yaml",
	"/usr/bin/signalbox",
	"/usr/lib/sysusers.d/signalbox.conf",
	"/usr/share/bash-completion/completions/signalbox",
	"/usr/share/doc/signalbox/changelog.gz",
	"/usr/share/doc/signalbox/config.example.yaml",
	"/usr/share/doc/signalbox/copyright",
	"/usr/share/doc/signalbox/install.md",
	"/usr/share/doc/signalbox/licenses.txt.gz",
	"/usr/share/doc/signalbox/low-ports.conf",
	"/usr/share/doc/signalbox/sbom.cdx.json",
	"/usr/share/fish/vendor_completions.d/signalbox.fish",
	"/usr/share/man/man1/signalbox.1.gz",
	"/usr/share/zsh/vendor-completions/_signalbox",
}

// rpm lists the package, its configuration files and its version.
func rpm(t *testing.T, dist string) {
	file := only(t, dist, "*.x86_64.rpm")
	want := slices.Sorted(slices.Values(append([]string{"/usr/lib/systemd/system/signalbox.service"}, contents...)))
	if diff := cmp.Diff(want, strings.Fields(run(t, nil, "rpm", "-qpl", file))); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	if got := strings.TrimSpace(run(t, nil, "rpm", "-qpc", file)); got != "/etc/signalbox/signalbox.yaml" {
		t.Errorf("configuration files: %s", got)
	}
	if got := run(t, nil, "rpm", "-qp", "--queryformat", "%{VERSION}-%{RELEASE} %{ARCH}", file); got != "1.2.3-1 x86_64" {
		t.Errorf("got %s", got)
	}
	run(t, nil, "rpm", "-K", "--nosignature", file)
}

// deb lists the package, and installs, upgrades, removes and purges it.
func deb(t *testing.T, dist string) {
	file := debOf(t, dist)
	if got := run(t, nil, "dpkg-deb", "-f", file, "Version"); got != "1.2.3-1\n" {
		t.Errorf("version %s", got)
	}
	listed := run(t, nil, "dpkg-deb", "-c", file)
	for _, path := range append([]string{"/lib/systemd/system/signalbox.service"}, contents...) {
		if !strings.Contains(listed, " ."+path+"\n") {
			t.Errorf("the package lacks %s:\n%s", path, listed)
		}
	}
	page := run(t, nil, "bash", "-c", `dpkg-deb --fsys-tarfile "$0" | tar -xO ./usr/share/man/man1/signalbox.1.gz | gzip -d`, file)
	if !strings.Contains(page, "\n.SS signalbox client create USERNAME\n") {
		t.Errorf("the manual page lacks the commands:\n%.500s", page)
	}
	t.Log(run(t, nil, script("namespace.sh"), script("deb.sh"), previous(t, file), file, t.TempDir()))
}

// previous returns a package of the version before.
func previous(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	unpacked, packed := filepath.Join(dir, "package"), filepath.Join(dir, "previous.deb")
	run(t, nil, "dpkg-deb", "-R", file, unpacked)
	control := filepath.Join(unpacked, "DEBIAN", "control")
	write(t, control, strings.Replace(read(t, control), "Version: 1.2.3-1\n", "Version: 1.2.2-1\n", 1))
	run(t, nil, "dpkg-deb", "--root-owner-group", "-Znone", "-b", unpacked, packed)
	return packed
}

// lintian finds no error in the package.
func lintian(t *testing.T, dist string) {
	out, err := try(t, nil, "lintian", "--profile", "debian", "--fail-on", "error", "--allow-root", debOf(t, dist))
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(out)
}

// imageConfig is the part of an image's configuration that a container is started with.
type imageConfig struct {
	Config struct {
		User            string
		Entrypoint, Cmd []string
		Env             []string
		Volumes         map[string]struct{}
	} `json:"config"`
}

// image reads the image with skopeo, makes it again, and starts it.
func image(t *testing.T, dist string) {
	layout := filepath.Join(t.TempDir(), "layout")
	run(t, nil, "bash", "-c", `mkdir "$1" && tar -C "$1" -xf "$0"`, filepath.Join(dist, program+".oci.tar"), layout)
	digest := strings.TrimSpace(read(t, filepath.Join(dist, program+".digest")))
	var found struct{ Digest, Architecture string }
	decode(t, run(t, nil, "skopeo", "inspect", "oci:"+layout), &found)
	if found.Digest != digest || found.Architecture != "amd64" {
		t.Errorf("skopeo found %+v, want digest %s", found, digest)
	}
	run(t, nil, "skopeo", "inspect", "docker-archive:"+filepath.Join(dist, program+".docker.tar")+":signalbox:1.2.3")
	run(t, nil, "skopeo", "inspect", "oci-archive:"+filepath.Join(dist, program+".oci.tar")+":1.2.3")
	var c imageConfig
	raw := run(t, nil, "skopeo", "inspect", "--config", "--raw", "oci:"+layout)
	decode(t, raw, &c)
	if c.Config.User != "65532:65532" || len(c.Config.Volumes) != 1 || !strings.Contains(raw, `"Healthcheck":{"Test":["CMD","/signalbox","healthcheck"]`) {
		t.Errorf("configuration: %s", raw)
	}
	again := strings.TrimSpace(run(t, nil, "go", "-C", filepath.Join(root, "scripts", "packages"), "run", "./image",
		"-program", abs(t, filepath.Join(dist, program)), "-arch", "amd64", "-version", "1.2.3", "-created", created(t, raw)))
	if again != digest {
		t.Errorf("made again, the image has the digest %s, not %s", again, digest)
	}
	startImage(t, layout, c)
}

// kubernetes has the manifest decoded as Kubernetes does, and compares it with the image.
func kubernetes(t *testing.T, dist string) {
	manifest := abs(t, filepath.Join(dist, "kubernetes.yaml"))
	check := func(file string) (string, error) {
		return try(t, nil, "go", "-C", filepath.Join(root, "scripts", "packages"), "run", "./kubernetes", file)
	}
	const want = "image signalbox:1.2.3\nport http 8080\nport mqtt 1883\nvolume /var/lib/signalbox\n" +
		"probe /healthz http\nprobe /healthz http\nprobe /readyz http\n"
	if got, err := check(manifest); err != nil || got != want {
		t.Errorf("%v, got %s, want %s", err, got, want)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	write(t, wrong, strings.Replace(read(t, manifest), "readOnlyRootFilesystem", "readOnlyRootFileSystem", 1))
	if out, err := check(wrong); err == nil {
		t.Errorf("a field that is misspelt was accepted: %s", out)
	}
}

// startImage runs an image as a container does, on a file system that is read-only.
func startImage(t *testing.T, layout string, c imageConfig) {
	t.Helper()
	files := filepath.Join(t.TempDir(), "root")
	unpacked := filepath.Join(t.TempDir(), "dir")
	run(t, nil, "skopeo", "copy", "--quiet", "oci:"+layout, "dir:"+unpacked)
	var manifest struct{ Layers []struct{ Digest string } }
	decode(t, read(t, filepath.Join(unpacked, "manifest.json")), &manifest)
	for _, l := range manifest.Layers {
		run(t, nil, "bash", "-c", `mkdir -p "$1" && tar --same-owner -C "$1" -xzf "$0"`, filepath.Join(unpacked, strings.TrimPrefix(l.Digest, "sha256:")), files)
	}
	args := []string{script("image.sh"), files, c.Config.User, first(c.Config.Volumes)}
	args = slices.Concat(args, c.Config.Entrypoint, c.Config.Cmd)
	out := run(t, c.Config.Env, script("namespace.sh"), args...)
	for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %s", out, want)
		}
	}
}

// created returns the time of an image.
func created(t *testing.T, config string) string {
	t.Helper()
	var c struct{ Created string }
	decode(t, config, &c)
	return c.Created
}

func first(set map[string]struct{}) string {
	for name := range set {
		return name
	}
	return ""
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
