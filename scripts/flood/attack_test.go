package flood

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"signalbox/scripts/process"
)

// attackVariable holds the parameters of the attack in the process that runs it.
const attackVariable = "SIGNALBOX_FLOOD_ATTACK"

// attack is the attack groups, in a process of their own. So they take processor time
// from the broker and not from the legitimate clients; and they have the lower
// priority, because real attackers use none of this machine's processors.
type attack struct {
	TCP, WS   string
	Scale     int
	Only      string // the groups to run, as a regular expression over names
	Addresses []string
}

// startAttack starts the process. stop ends it and returns what it has printed.
func startAttack(t *testing.T, h attack) (stop func() string) {
	t.Helper()
	parameters, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), attackVariable+"="+string(parameters))
	cmd.SysProcAttr = process.DieWithParent()
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() string {
		stdin.Close() //nolint:errcheck // which ends the attack
		if err := cmd.Wait(); err != nil {
			t.Errorf("the attack: %v", err)
		}
		return output.String()
	}
}

// runAttack is the process: it attacks until its standard input ends.
func runAttack(parameters string) error {
	const lowerPriority = 5
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowerPriority); err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	var h attack
	if err := json.Unmarshal([]byte(parameters), &h); err != nil {
		return err
	}
	only, err := regexp.Compile(h.Only)
	if err != nil {
		return err
	}
	groups := slices.DeleteFunc(attackGroups(h.Scale), func(m *attackGroup) bool { return !only.MatchString(m.name) })
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is the signal
		stop()
	}()
	runGroups(ctx, &h, groups)
	for _, m := range groups {
		fmt.Println(m)
	}
	return nil
}
