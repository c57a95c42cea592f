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

// hordeVariable tells a process of this test that it is the horde.
const hordeVariable = "SIGNALBOX_FLOOD_HORDE"

// horde is the mobs of a flood, in a process of their own. So they do not take
// the time of those who behave, but only the broker's; and they have the lower
// priority, as who comes from elsewhere has none on this machine.
type horde struct {
	TCP, WS   string
	Scale     int
	Only      string // the mobs to let loose, as a regular expression over names
	Addresses []string
}

// unleash starts the horde. The function that it gives calls it back and tells
// what became of it.
func unleash(t *testing.T, h horde) (callBack func() string) {
	t.Helper()
	order, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hordeVariable+"="+string(order))
	cmd.SysProcAttr = process.DieWithParent()
	cmd.Stdout, cmd.Stderr = &said, &said
	leash, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() string {
		leash.Close() //nolint:errcheck // that is all there is to tell
		if err := cmd.Wait(); err != nil {
			t.Errorf("the horde: %v", err)
		}
		return said.String()
	}
}

// beHorde is the process: it rages until its standard input ends.
func beHorde(order string) error {
	const lowerPriority = 5
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowerPriority); err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	var h horde
	if err := json.Unmarshal([]byte(order), &h); err != nil {
		return err
	}
	only, err := regexp.Compile(h.Only)
	if err != nil {
		return err
	}
	mobs := slices.DeleteFunc(crowds(h.Scale), func(m *mob) bool { return !only.MatchString(m.name) })
	ctx, calm := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is the sign
		calm()
	}()
	rage(ctx, &h, mobs)
	for _, m := range mobs {
		fmt.Println(m)
	}
	return nil
}
