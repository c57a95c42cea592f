// Package platforms builds the program for the platforms that it is for.
package platforms

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

// platforms are those that the program is built for, or at least compiles for.
var platforms = []string{"linux/amd64", "linux/arm64", "linux/arm", "linux/riscv64", "windows/amd64", "darwin/arm64"}

// TestCampaignPlatforms builds the program for all platforms, and starts it where this
// machine can: its own, and Linux on the processors that qemu-user-static emulates.
func TestCampaignPlatforms(t *testing.T) {
	for _, platform := range platforms {
		t.Run(platform, func(t *testing.T) {
			system, arch, _ := strings.Cut(platform, "/")
			program := filepath.Join(t.TempDir(), "signalbox")
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "signalbox")
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOARM=7")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if run := runner(system, arch); run != nil {
				start(t, append(run, program))
				return
			}
			t.Log("built, not started: this machine cannot")
		})
	}
}

// emulated are the processors for which qemu has another name than Go.
var emulated = map[string]string{"arm64": "aarch64", "amd64": "x86_64"}

// runner is the command before a program that runs it here: none where this machine does
// so by itself, and nil where it cannot be run.
func runner(system, arch string) []string {
	if system == runtime.GOOS && arch == runtime.GOARCH {
		return []string{}
	}
	name, ok := emulated[arch]
	if !ok {
		name = arch
	}
	emulator, err := exec.LookPath("qemu-" + name + "-static")
	if err != nil || system != "linux" || runtime.GOOS != "linux" {
		return nil
	}
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
