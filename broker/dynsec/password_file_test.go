package dynsec

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func TestPasswordFile(t *testing.T) {
	t.Parallel()
	old, now := madeByMosquitto["2.0"].encoded, madeByMosquitto["2.1"].encoded
	file := "# users\r\n\r\nzoe:" + now + "\r\n  bob : " + old + " \nada:" + argonReference
	d, warnings, err := ParsePasswordFile(strings.NewReader(file), false)
	want := Document{Clients: []DocumentClient{
		{Username: "ada", EncodedPassword: argonReference},
		{Username: "bob", EncodedPassword: old},
		{Username: "zoe", EncodedPassword: now},
	}}
	if diff := cmp.Diff(want, d); diff != "" || err != nil || len(warnings) > 0 {
		t.Errorf("got error %v, warnings %q; want (-) and got (+) differ:\n%s", err, warnings, diff)
	}
}

func TestPasswordFileOfMosquittoPasswd(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("mosquitto_passwd")
	if err != nil {
		missing(t, "mosquitto_passwd is not installed (apt-get install mosquitto)")
	}
	path := filepath.Join(t.TempDir(), "passwd")
	if out, err := exec.Command(tool, "-c", "-b", path, "bob", "builder").CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd: %v\n%s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := ParsePasswordFile(strings.NewReader(string(b)), false)
	if err != nil || len(d.Clients) != 1 || d.Clients[0].Username != "bob" {
		t.Fatalf("got %+v, %v, want bob", d.Clients, err)
	}
	verifies(t, "mosquitto_passwd", d.Clients[0].EncodedPassword, "builder")
}

// missing skips a test because a program is missing; in CI it fails.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func TestPasswordFileFaultsAreNamed(t *testing.T) {
	t.Parallel()
	file := strings.Join([]string{
		"ok:" + madeByMosquitto["2.0"].encoded,
		"weak:$6$bm90IGEgc2FsdA==$c2VjcmV0",
		"plain:hunter2",
		"none:",
		"nocolon",
		":" + madeByMosquitto["2.0"].encoded,
		"ok:" + madeByMosquitto["2.1"].encoded,
		"broken:$7$101$AAAA$BBBB",
		"bad\xff:x",
	}, "\n")
	want := []string{
		`line 2: user "weak" has a hash of the old kind $6$, too weak to be kept: set a new password with mosquitto_passwd and import again`,
		`line 3: user "plain" has a password that is not hashed: run mosquitto_passwd -U on the file and import again`,
		`line 4: user "none" has a password that is not hashed: run mosquitto_passwd -U on the file and import again`,
		`line 5: there is no colon between user and password hash`,
		`line 6: the user's name must not be empty`,
		`line 7: user "ok" is there twice`,
		`line 8: user "broken": not a password hash of a known form: salt is not base64 of 12 or 64 bytes`,
		`line 9: not UTF-8`,
	}
	d, _, err := ParsePasswordFile(strings.NewReader(file), true)
	if broker.KindOf(err) != broker.Invalid || d.Clients != nil {
		t.Fatalf("got %+v, %v, want an Invalid error and nothing else", d, err)
	}
	if diff := cmp.Diff(want, strings.Split(message(err), "; ")); diff != "" {
		t.Errorf("want (-) and got (+) differ:\n%s", diff)
	}
	for _, secret := range []string{"hunter2", "c2VjcmV0", "BBBB"} {
		if strings.Contains(message(err), secret) {
			t.Errorf("the error holds %q of the file", secret)
		}
	}
}

func TestFileThatCannotBeReadToItsEnd(t *testing.T) {
	t.Parallel()
	long := "\nuser " + strings.Repeat("x", maxLineBytes)
	if _, _, err := ParsePasswordFile(strings.NewReader(long), false); err == nil || !strings.Contains(message(err), "line 2: longer than") {
		t.Errorf("got %v, want a line too long", err)
	}
	broken := errors.New("broken")
	if _, _, err := ParseACLFile(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestPasswordFileWithoutClients(t *testing.T) {
	t.Parallel()
	if d, w, err := ParsePasswordFile(strings.NewReader("# nothing\n"), false); err != nil || len(w) != 1 || len(d.Clients) != 0 {
		t.Errorf("got %+v, %q, %v, want nothing and a warning", d, w, err)
	}
}

func FuzzParsePasswordFile(f *testing.F) {
	f.Add("a:" + madeByMosquitto["2.0"].encoded + "\r\n#\n b : $7$1$x$y")
	f.Add("x\ny:$6$")
	f.Fuzz(func(t *testing.T, file string) {
		d, _, err := ParsePasswordFile(strings.NewReader(file), false)
		checkParsed(t, d, err)
	})
}

// checkParsed checks that a parser returned either a valid document or an error of the
// right kind.
func checkParsed(t *testing.T, d Document, err error) {
	t.Helper()
	if err != nil {
		if broker.KindOf(err) != broker.Invalid {
			t.Errorf("got %v, want kind Invalid", err)
		}
		return
	}
	b, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ParseDocument(bytes.NewReader(b)); err != nil {
		t.Errorf("the document is not sound: %v\n%s", err, b)
	}
}
