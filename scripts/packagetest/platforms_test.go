package packagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// platforms are those of a release, with the names that packages have for their processors.
var platforms = []struct{ system, arch, deb, rpm, image string }{
	{"linux", "amd64", "amd64", "x86_64", "amd64"},
	{"linux", "arm64", "arm64", "aarch64", "arm64"},
	{"linux", "arm", "armhf", "armv7hl", "arm"},
	{"linux", "riscv64", "riscv64", "riscv64", "riscv64"},
	{"windows", "amd64", "", "", ""},
	{"darwin", "arm64", "", "", ""},
}

// sizeLimit is what a program may have at most, in bytes.
const sizeLimit = 45_000_000

// allPlatforms checks what there is for each platform, and starts the programs for Linux: on other
// processors than this machine's with qemu-user-static.
func allPlatforms(t *testing.T, dist string) {
	for _, p := range platforms {
		name := "signalbox-" + p.system + "-" + p.arch
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(dist, name)
			if p.system == "windows" {
				program += ".exe"
			}
			info, err := os.Stat(program)
			if err != nil {
				t.Fatal(err)
			}
			if p.system == "linux" && p.arch == "amd64" && info.Size() > sizeLimit {
				t.Errorf("the program has %d bytes, more than %d", info.Size(), sizeLimit)
			}
			listed := strings.Fields(run(t, nil, "tar", "-tf", filepath.Join(dist, name+".bundle.tar")))
			want := []string{filepath.Base(program), filepath.Base(program) + ".minisig", name + ".sbom.cdx.json", name + ".licenses.txt"}
			if p.deb != "" {
				want = append(want, "signalbox_1.2.3-1_"+p.deb+".deb", "signalbox-1.2.3-1."+p.rpm+".rpm", name+".oci.tar")
				packaged(t, dist, name, p.deb, p.rpm, p.image)
			}
			for _, file := range want {
				if !slices.Contains(listed, file) {
					t.Errorf("the bundle lacks %s: %q", file, listed)
				}
			}
			for _, file := range listed {
				if strings.HasPrefix(file, "signalbox-"+p.system) && file != name && !strings.HasPrefix(file, name+".") {
					t.Errorf("the bundle has %s, of another platform", file)
				}
			}
			if p.system != "linux" {
				t.Log("made, not started: this system cannot")
				return
			}
			start(t, append(runner(t, p.arch), program))
		})
	}
}

// packaged checks that the packages and the image of a program are for its processor.
func packaged(t *testing.T, dist, name, deb, rpm, image string) {
	t.Helper()
	file := filepath.Join(dist, "signalbox_1.2.3-1_"+deb+".deb")
	if got := run(t, nil, "dpkg-deb", "-f", file, "Architecture"); got != deb+"\n" {
		t.Errorf("%s is for %s", file, got)
	}
	file = filepath.Join(dist, "signalbox-1.2.3-1."+rpm+".rpm")
	if got := run(t, nil, "rpm", "-qp", "--queryformat", "%{ARCH}", file); got != rpm {
		t.Errorf("%s is for %s", file, got)
	}
	var found struct{ Architecture, Os string }
	decode(t, run(t, nil, "skopeo", "inspect", "oci-archive:"+filepath.Join(dist, name+".oci.tar")+":1.2.3"), &found)
	if found.Architecture != image || found.Os != "linux" {
		t.Errorf("the image is for %+v", found)
	}
}

// emulated are the processors for which qemu has another name than Go.
var emulated = map[string]string{"arm64": "aarch64", "amd64": "x86_64"}

// runner is the command before a program for Linux that runs it here: none on this machine's own
// processor.
func runner(t *testing.T, arch string) []string {
	t.Helper()
	if arch == runtime.GOARCH {
		return nil
	}
	name, ok := emulated[arch]
	if !ok {
		name = arch
	}
	emulator := "qemu-" + name + "-static"
	need(t, emulator)
	return []string{emulator}
}

// start runs the service on an empty directory until healthcheck finds it well, and ends
// it.
func start(t *testing.T, command []string) {
	t.Helper()
	dir := t.TempDir()
	run := func(arg string) *exec.Cmd {
		args := slices.Concat(command[1:], []string{arg})
		c := exec.CommandContext(t.Context(), command[0], args...)
		c.Dir = dir
		c.Env = append(suite.Environment(), "SIGNALBOX_HTTP_LISTEN=127.0.0.1:0", "SIGNALBOX_BROKER_LISTEN=127.0.0.1:0")
		return c
	}
	service, log := run("serve"), new(strings.Builder)
	service.Stdout, service.Stderr = log, log
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- service.Wait() }()
	hanging := time.After(suite.HangLimit)
	for run("healthcheck").Run() != nil { // which takes a while itself
		select {
		case err := <-ended:
			t.Fatalf("the service ended: %v\n%s", err, log)
		case <-hanging:
			t.Fatal("the service does not become ready")
		default:
		}
	}
	if err := service.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("stopping: %v\n%s", err, log)
	}
	suite.NoPanic(t, log.String())
}
