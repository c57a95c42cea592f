package process

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

func TestServe_reads_the_greeting(t *testing.T) {
	t.Parallel()
	s, err := Serve(exec.Command("/bin/sh", "-c", `
		echo "signalbox 1.0 is ready."
		echo "  API   http://127.0.0.1:1  (manual: http://127.0.0.1:1/docs)"
		echo "  MQTT  mqtt://127.0.0.1:2"
		echo "  MQTT  mqtts://127.0.0.1:3"
		echo "  MQTT  ws://127.0.0.1:4"
		echo "  data  /data"
		exec sleep 600`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if err := s.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.API != "http://127.0.0.1:1" || s.MQTT != "127.0.0.1:2" || s.WebSocket != "127.0.0.1:4" {
		t.Errorf("got API %q, MQTT %q, WebSocket %q", s.API, s.MQTT, s.WebSocket)
	}
	if err := s.End(syscall.SIGTERM); err != nil || s.ExitCode() != -1 {
		t.Errorf("ended with code %d: %v", s.ExitCode(), err)
	}
}

func TestProcess_that_ends_before_it_is_ready(t *testing.T) {
	t.Parallel()
	p, err := Start(exec.Command("/bin/sh", "-c", "echo a; echo panic: b >&2; exit 3"), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "code 3") || !strings.Contains(err.Error(), "panic: b") {
		t.Errorf("got %v", err)
	}
	if p.Panic() == nil {
		t.Error("the panic is not found")
	}
	if p.Stdout.String() != "a\n" {
		t.Errorf("got the output %q", p.Stdout.String())
	}
}
