package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"signalbox/router"
)

var update = flag.Bool("update", false, "write golden files anew")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func operations(t testing.TB) []router.Operation {
	t.Helper()
	ops, err := router.Operations()
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// TestEveryOperation checks that every operation has one command, or a reason for having
// none, and lists the commands.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	ops := operations(t)
	names, err := nounsOf(ops)
	must(t, err)
	root := &cobra.Command{Use: "signalbox"}
	must(t, AddTo(root, &Env{}))
	var list strings.Builder
	known := map[string]bool{}
	for _, op := range ops {
		known[op.ID] = true
		reason, none := without[op.ID]
		if none == (len(names[op.ID]) > 0) || none && reason == "" {
			t.Errorf("%s has the command %q and the reason %q for having none", op.ID, names[op.ID], reason)
		}
		if none {
			continue
		}
		cmd, rest, err := root.Find(names[op.ID])
		if err != nil || len(rest) > 0 || !strings.Contains(cmd.Long, "Operation "+op.ID+":") {
			t.Errorf("%s: the command %q is not found: %v", op.ID, names[op.ID], err)
			continue
		}
		fmt.Fprintf(&list, "%-22s %s\n", op.ID, strings.TrimPrefix(cmd.UseLine(), "signalbox "))
	}
	for _, exceptions := range []map[string]string{without, irregular} {
		for id := range exceptions {
			if !known[id] {
				t.Errorf("%s is an exception, and no operation", id)
			}
		}
	}
	for _, op := range ops {
		if name, ok := irregular[op.ID]; ok && name == regularName(op, kindsOf(ops)) {
			t.Errorf("%s is an exception, and its name follows from the rule", op.ID)
		}
	}
	golden(t, "commands.txt", list.String())
}

// TestNamesAreUnique checks that two operations with one command are refused.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	_, err := nounsOf([]router.Operation{{ID: "modifyPump"}, {ID: "updatePump"}})
	if err == nil || !strings.Contains(err.Error(), "modifyPump and updatePump") {
		t.Errorf("got %v", err)
	}
}

// TestFlagsAreUnique checks that a member with the name of a flag of all commands is
// refused.
func TestFlagsAreUnique(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"timeout", "yes", "output"} {
		op := router.Operation{ID: "createPump", Method: "DELETE", Body: &router.Schema{Kind: router.Object,
			Members: []router.Field{{Name: member, Schema: router.Schema{Kind: router.Text}}}}}
		tr := &tree{env: &Env{}}
		if _, err := tr.command(&op, []string{"pump", "create"}); err == nil {
			t.Errorf("%s: accepted", member)
		}
	}
}

// TestSecretsAreNotArguments checks that no flag takes a secret.
func TestSecretsAreNotArguments(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "signalbox"}
	must(t, AddTo(root, &Env{}))
	for _, parent := range root.Commands() {
		for _, cmd := range parent.Commands() {
			for _, name := range []string{"password", "token", "client-key", "current", "new"} {
				if cmd.Flags().Lookup(name) != nil {
					t.Errorf("%s has --%s", cmd.CommandPath(), name)
				}
			}
		}
	}
}

// TestSecrets has the members of bodies that no command takes as an argument.
func TestSecrets(t *testing.T) {
	t.Parallel()
	ops, err := router.Operations()
	must(t, err)
	var got []string
	for _, op := range ops {
		if op.Body == nil {
			continue
		}
		for _, m := range op.Body.Members {
			if isSecret(m) {
				got = append(got, op.ID+"."+m.Name)
			}
		}
	}
	slices.Sort(got)
	want := []string{"changePassword.current", "changePassword.new", "createBroker.client_key", "createBroker.password", "createClient.password", "createUser.password", "login.password", "modifyClient.password", "testBroker.client_key", "testBroker.password", "updateBroker.client_key", "updateBroker.password", "updateUser.password"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}
