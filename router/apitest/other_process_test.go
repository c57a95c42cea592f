package apitest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	nats "github.com/nats-io/nats-server/v2/server"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// The brokers that startBrokerProcess starts. Both allow every client everything.
const (
	mochiBroker = "mochi"
	natsBroker  = "NATS"
)

// otherVariable makes TestMain run a broker instead of tests; otherDir is the broker's directory.
const (
	otherVariable = "SIGNALBOX_APITEST_BROKER"
	otherDir      = "SIGNALBOX_APITEST_BROKER_DIR"
)

// startBrokerProcess starts a broker in a process of its own: the race detector also finds the data races of others,
// and would fail the tests that run at that time.
func startBrokerProcess(t *testing.T, name string) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherVariable+"="+name, otherDir+"="+t.TempDir())
	p, err := process.Start(cmd, func(line string) (serves bool) {
		addr, serves = strings.CutPrefix(line, "serving ")
		return serves
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitReady(context.Background()); err != nil {
		t.Fatal(err)
	}
	return addr
}

// serveOther runs a broker until the process is killed.
func serveOther(name string) error {
	start := map[string]func() (string, error){mochiBroker: startMochi, natsBroker: startNATS}[name]
	addr, err := start()
	if err != nil {
		return err
	}
	fmt.Println("serving", addr)
	select {}
}

func startMochi() (addr string, err error) {
	s := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler)})
	l := listeners.NewTCP(listeners.Config{ID: "t", Address: "127.0.0.1:0"})
	if err := errors.Join(s.AddHook(new(auth.AllowHook), nil), s.AddListener(l)); err != nil {
		return "", err
	}
	return l.Address(), s.Serve()
}

func startNATS() (addr string, err error) {
	o := &nats.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: os.Getenv(otherDir), ServerName: "n"}
	o.MQTT.Host, o.MQTT.Port, o.MQTT.JSAPITimeout = "127.0.0.1", -1, suite.HangLimit
	s, err := nats.NewServer(o)
	if err != nil {
		return "", err
	}
	s.Start()
	if !s.ReadyForConnections(suite.HangLimit) {
		return "", errors.New("NATS does not start")
	}
	return fmt.Sprintf("127.0.0.1:%d", o.MQTT.Port), nil
}
