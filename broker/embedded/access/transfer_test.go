package access

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// TestImportIsDurable imports files of both generations and logs in with their passwords,
// before and after a restart.
func TestImportIsDurable(t *testing.T) {
	t.Parallel()
	hash, err := dynsec.HashPassword([]byte("old secret"), iterations)
	must(t, err)
	parts := strings.Split(hash, "$") // "", "7", iterations, salt, hash
	for name, client := range map[string]string{
		"2.1": `"encoded_password":"` + hash + `"`,
		"2.0": `"password":"` + parts[4] + `","salt":"` + parts[3] + `","iterations":` + parts[2],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "broker.db")
			c := open(t, path)
			report, err := c.ImportAccess(t.Context(), strings.NewReader(`{"defaultACLAccess":{"publishClientSend":true},
				"clients":[{"username":"u","roles":[{"rolename":"r"}],`+client+`},{"username":"v","roles":[]}],
				"groups":[{"groupname":"g","clients":[{"username":"v","priority":3}],"roles":[]}],
				"roles":[{"rolename":"r","acls":[]}],"anonymousGroup":"g"}`), false)
			must(t, err)
			if report.Clients != 2 || report.Groups != 1 || report.Roles != 1 || report.Warnings == nil {
				t.Errorf("got %+v", report)
			}
			if !c.Initialised() {
				t.Error("the broker does not count as set up")
			}
			wantKind(t, c.Bootstrap(t.Context(), "admin", "secret"), broker.Exists)
			c = restarted(t, c, path)
			a, err := c.Authenticate(t.Context(), login("u", "old secret"))
			must(t, err)
			a.Release()
		})
	}
}

// TestEmptyImportInitialises expects an import of an empty file to count as the first
// start, so that no administrator is created.
func TestEmptyImportInitialises(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	_, err := c.ImportAccess(t.Context(), strings.NewReader(`{"clients":[],"groups":[],"roles":[]}`), false)
	must(t, err)
	shut(t, c)
	if !open(t, path).Initialised() {
		t.Error("it was forgotten")
	}
}

func TestExportIntoAnotherBroker(t *testing.T) {
	t.Parallel()
	from, to := fresh(t), fresh(t)
	must(t, from.Bootstrap(t.Context(), "boss", "secret"), to.CreateRole(t.Context(), role("gone")))
	must(t, from.CreateClient(t.Context(), client("u", "admin")))
	want := export(t, from)
	_, err := to.ImportAccess(t.Context(), strings.NewReader(want), true)
	must(t, err)
	if diff := cmp.Diff(want, export(t, to)); diff != "" {
		t.Errorf("-exported +imported:\n%s", diff)
	}
	authenticated(t, to, "u")
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")))
	before := export(t, c)
	other, err := dynsec.HashPassword([]byte("other"), iterations)
	must(t, err)
	for document, kind := range map[string]broker.Kind{
		`{"clients":[{"username":"new"},{"username":"u","encoded_password":"` + other + `"}]}`: broker.Exists,
		`{"clients":[{"username":"new","roles":[{"rolename":"no such"}]}]}`:                    broker.Invalid,
		`{"clients":[{"username":"new","encoded_password":"$6$salt$hash"}]}`:                   broker.Invalid,
		`{`: broker.Invalid,
	} {
		_, err := c.ImportAccess(t.Context(), strings.NewReader(document), false)
		wantKind(t, err, kind)
	}
	if got := export(t, c); got != before {
		t.Errorf("something was taken over:\n%s", got)
	}
}

// TestImportMerges expects existing records to stay, passwords above all.
func TestImportMerges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	must(t, c.CreateRole(t.Context(), role("r")), c.CreateClient(t.Context(), client("u")), c.CreateClient(t.Context(), client("untouched")))
	_, err := c.ImportAccess(t.Context(), strings.NewReader(`{"clients":[{"username":"u","roles":[{"rolename":"s"}]},{"username":"new"}],
		"roles":[{"rolename":"s","acls":[{"acltype":"publishClientSend","topic":"t","allow":true}]}]}`), false)
	must(t, err)
	want := export(t, c)
	shut(t, c)
	c = open(t, path)
	if diff := cmp.Diff(want, inMemory(t, c)); diff != "" {
		t.Errorf("before (-) and after (+) the restart:\n%s", diff)
	}
	authenticated(t, c, "untouched")
	if !authenticated(t, c, "u").Allowed(dynsec.PublishSend, "id", "t") {
		t.Error("the imported role has no effect")
	}
	if _, err := c.GetClient(t.Context(), "new"); err != nil {
		t.Error(err)
	}
}

func TestImportReportsDisconnects(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")))
	var told []dynsec.Disconnect
	c.OnDisconnect(func(disconnects []dynsec.Disconnect) { told = append(told, disconnects...) })
	_, err := c.ImportAccess(t.Context(), strings.NewReader(`{"clients":[]}`), true)
	must(t, err)
	if !slices.Contains(told, dynsec.Disconnect{Username: "u"}) || !slices.Contains(told, dynsec.Disconnect{Anonymous: true}) {
		t.Errorf("got %v, want u and the anonymous clients", told)
	}
}

// TestExportIsOneMoment exports while a client and its password are created and deleted; a
// client must never appear without its password.
func TestExportIsOneMoment(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 30 {
			must(t, c.CreateClient(t.Context(), client("u")), c.DeleteClient(t.Context(), "u"))
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		content, _, err := dynsec.ParseDocument(strings.NewReader(export(t, c)))
		must(t, err)
		d := content.Document()
		if len(d.Clients) == 1 && d.Clients[0].EncodedPassword == "" {
			t.Fatal("a client without the password that it was created with")
		}
	}
}
