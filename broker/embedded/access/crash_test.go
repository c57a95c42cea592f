package access

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"signalbox/broker"
)

const (
	crashDir   = "ACCESS_CRASH_DIR"   // set for the process that is killed
	crashKills = "ACCESS_CRASH_KILLS" // number of kills; a dozen if not set
	crashLog   = "ACCESS_CRASH_LOG"   // a file with a log, for a process that makes its changes through one
	writers    = 4
)

// TestCampaignKill kills a process that changes the access control, repeatedly on the same
// file. What the process acknowledged must be stored when the file is opened again, and no
// request may be stored in part.
//
// Each writer of the process repeats three changes on a pair of clients of its own: create
// both in one request, modify the first, delete the second.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	kills, dir := kills(t), t.TempDir()
	c := openIn(t, dir)
	must(t, c.Bootstrap(t.Context(), "admin", "secret"), c.CreateGroup(t.Context(), broker.GroupSpec{GroupName: "g"}))
	shut(t, c)
	settled := map[string]int{} // changes of a pair that are known to be stored
	for kill := range kills {
		maps.Copy(settled, runAndKill(t, dir, kill))
		verifyPairs(t, dir, kill, settled)
	}
	t.Logf("%d kills, %d pairs of clients", kills, len(settled))
}

// kills returns the number of kills.
func kills(t *testing.T) int {
	t.Helper()
	s := os.Getenv(crashKills)
	if s == "" {
		return 12
	}
	n, err := strconv.Atoi(s)
	must(t, err)
	return n
}

func openIn(t testing.TB, dir string) *Control {
	t.Helper()
	c, err := Open(context.Background(), Options{Path: filepath.Join(dir, "broker.db"), PasswordIterations: iterations})
	must(t, err)
	return c
}

// runAndKill lets a process work until it has acknowledged some changes, and kills it. It
// returns the number of acknowledged changes per pair.
func runAndKill(t *testing.T, dir string, kill int, environ ...string) map[string]int {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("ACCESS_CRASH_RUN=%d", kill))
	process.Env = append(process.Env, environ...)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	must(t, err, process.Start())
	acknowledged := map[string]int{}
	killAfter, lines := 1+rand.IntN(60), bufio.NewReader(out)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n') // also what it wrote before it was killed
		if err != nil {
			break
		}
		acknowledge(t, acknowledged, strings.TrimSpace(line))
		if n == killAfter {
			must(t, process.Process.Kill())
		}
	}
	if err := process.Wait(); process.ProcessState.Exited() {
		t.Fatalf("the process ended by itself: %v", err)
	}
	return acknowledged
}

// acknowledge parses a line "pair changes".
func acknowledge(t *testing.T, acknowledged map[string]int, line string) {
	t.Helper()
	pair, changes, ok := strings.Cut(line, " ")
	n, err := strconv.Atoi(changes)
	if !ok || err != nil || n != acknowledged[pair]+1 {
		t.Fatalf("unexpected line %q", line)
	}
	acknowledged[pair] = n
}

// verifyPairs opens the file and compares every pair with what was acknowledged. A change
// that was under way may have happened; from then on it must stay.
func verifyPairs(t *testing.T, dir string, kill int, settled map[string]int) {
	t.Helper()
	c := openIn(t, dir)
	defer shut(t, c)
	for writer := range writers { // the pair of the writer's last, unacknowledged change
		pair := 0
		for settled[pairName(kill, writer, pair)] == 3 {
			pair++
		}
		name := pairName(kill, writer, pair)
		if there := appliedChanges(t, c, name); there == settled[name]+1 {
			settled[name] = there
		}
	}
	for name, want := range settled {
		if got := appliedChanges(t, c, name); got != want {
			t.Errorf("kill %d: pair %s shows %d changes, want %d", kill, name, got, want)
		}
	}
	checkIntegrity(t, c)
}

func pairName(kill, writer, pair int) string { return fmt.Sprintf("%d-%d-%d", kill, writer, pair) }

// appliedChanges returns how many changes of a pair are stored, and fails the test if one
// is stored in part.
func appliedChanges(t *testing.T, c *Control, name string) int {
	t.Helper()
	a, errA := c.GetClient(t.Context(), name+"-a")
	b, errB := c.GetClient(t.Context(), name+"-b")
	for _, cl := range []broker.Client{a, b} {
		if cl.Username != "" && (len(cl.Roles) != 1 || len(cl.Groups) != 1) {
			t.Errorf("client %s is stored in part: %+v", cl.Username, cl)
		}
	}
	switch {
	case errA != nil && errB != nil:
		return 0
	case errA == nil && errB == nil && a.TextName == nil:
		return 1
	case errA == nil && errB == nil:
		return 2
	case errA == nil && a.TextName != nil:
		return 3
	}
	t.Errorf("pair %s is stored in part: %+v, %+v", name, a, b)
	return -1
}

// checkIntegrity checks the file itself.
func checkIntegrity(t *testing.T, c *Control) {
	t.Helper()
	var verdict string
	must(t, c.store.r.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&verdict))
	var dangling int
	must(t, c.store.r.QueryRowContext(t.Context(), `SELECT count(*) FROM pragma_foreign_key_check`).Scan(&dangling))
	if verdict != "ok" || dangling != 0 {
		t.Errorf("the file is damaged: %s, %d dangling references", verdict, dangling)
	}
	if got, want := inMemory(t, c), export(t, c); got != want {
		t.Error("memory and file differ")
	}
}

// writeUntilKilled is the process that TestCampaignKill kills. It prints each acknowledged
// change, in one write.
func writeUntilKilled(dir string) {
	c, err := Open(context.Background(), Options{Path: filepath.Join(dir, "broker.db"), PasswordIterations: iterations})
	if err != nil {
		panic(err)
	}
	if path := os.Getenv(crashLog); path != "" {
		shareLog(c, path)
	}
	run, err := strconv.Atoi(os.Getenv("ACCESS_CRASH_RUN"))
	if err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for pair := 0; ; pair++ {
				writePair(c, pairName(run, writer, pair))
			}
		})
	}
	wg.Wait()
}

func writePair(c *Control, name string) {
	ctx, text := context.Background(), "modified"
	const create = `{"command":"createClient","username":"%s-%s","password":"p","roles":[{"rolename":"admin"}],"groups":[{"groupname":"g"}]}`
	answer, _ := c.Handle(ctx, []byte(`{"commands":[`+fmt.Sprintf(create, name, "a")+`,`+fmt.Sprintf(create, name, "b")+`]}`))
	if want := `{"responses":[{"command":"createClient"},{"command":"createClient"}]}`; string(answer) != want {
		panic(string(answer))
	}
	fmt.Printf("%s 1\n", name)
	if err := c.ModifyClient(ctx, broker.ClientSpec{Username: name + "-a", TextName: &text}); err != nil {
		panic(err)
	}
	fmt.Printf("%s 2\n", name)
	if err := c.DeleteClient(ctx, name+"-b"); err != nil {
		panic(err)
	}
	fmt.Printf("%s 3\n", name)
}
