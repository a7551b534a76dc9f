package authority

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := &cobra.Command{Use: "pilot-discovery", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands()...)
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), err
}

// TestAuthorityCommands: the root of a running control plane is replaced by way of its folder.
func TestAuthorityCommands(t *testing.T) {
	dir := t.TempDir()
	if _, err := execute(t, "ca", "status", "--caStateDir", filepath.Join(dir, "none")); err == nil {
		t.Error("asking for a root makes one")
	}
	o := ca.DefaultOptions()
	o.Plugged, o.State = "", dir
	running, err := ca.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, dir, "status", ca.Stable)
	expect(t, dir, "rotate", ca.Introduced)
	if err := running.Step(); err != nil || running.Status().Phase != ca.Introduced {
		t.Errorf("the running control plane: %v %v", running.Status().Phase, err)
	}
	expect(t, dir, "advance", ca.Retiring)
	expect(t, dir, "advance", ca.Stable)
	if _, err := execute(t, "ca", "advance", "--caStateDir", dir); err == nil {
		t.Error("a step of nothing passes")
	}
}

func expect(t *testing.T, dir, verb string, want ca.Phase) {
	t.Helper()
	out, err := execute(t, "ca", verb, "--caStateDir", dir)
	var s ca.Status
	if err != nil || json.Unmarshal([]byte(out), &s) != nil || s.Phase != want {
		t.Errorf("%s: %v, %s; want %s", verb, err, out, want)
	}
}

func TestTokenCommands(t *testing.T) {
	dir := t.TempDir()
	out, err := execute(t, "token", "create", "--caStateDir", dir, "-n", "shop", "--serviceAccount", "web")
	if err != nil {
		t.Fatal(err)
	}
	caller, err := authn.NewJoinTokens(dir, time.Now,
		slog.New(slog.DiscardHandler)).Authenticate(t.Context(), authn.Credentials{Token: strings.TrimSpace(out)})
	if err != nil || caller.ID.String() != "spiffe://cluster.local/ns/shop/sa/web" {
		t.Errorf("%+v, %v", caller, err)
	}
	list, err := execute(t, "token", "list", "--caStateDir", dir)
	name := strings.Split(out, ".")[1]
	if err != nil || !strings.Contains(list, name) || !strings.Contains(list, caller.ID.String()) ||
		strings.Contains(list, strings.Split(out, ".")[2]) {
		t.Errorf("%v %s", err, list)
	}
	if _, err := execute(t, "token", "revoke", name, "--caStateDir", dir); err != nil {
		t.Error(err)
	}
	if _, err := execute(t, "token", "create", "--caStateDir", dir); err == nil {
		t.Error("a token for no namespace passes")
	}
}

// TestRevokeCommands checks the output for what an operator types.
func TestRevokeCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	run := func(args ...string) (string, error) {
		return execute(t, append([]string{"ca"}, append(args, "--caStateDir", dir)...)...)
	}
	for _, c := range []struct {
		args []string
		want string // part of the output, or of the error
		ok   bool
	}{
		{[]string{"revoke", "shop/web", "--reason", "left"}, "shop/web is revoked; 0 of its certificates are on the list", true},
		{[]string{"revoke", "abc"}, "add --unrecorded", false},
		{[]string{"revoke", "AB:C0", "--unrecorded"}, "", true},
		{[]string{"revoke", "shop/web/x"}, "want <namespace>/<service account>", false},
		{[]string{"revoke", "xyz"}, "hexadecimal", false},
		{[]string{"revoke", "shop/web", "--reason", "a\x1b[2J"}, "printable", false},
		{[]string{"revoked"}, "abc0", true},
		{[]string{"revoked"}, "left", true},
		{[]string{"restore", "shop/web"}, "", true},
		{[]string{"restore", "shop/db"}, "shop/db is not revoked", false},
		{[]string{"restore", "abc0"}, "", true},
	} {
		out, err := run(c.args...)
		if err != nil {
			out = err.Error()
		}
		if (err == nil) != c.ok || !strings.Contains(out, c.want) {
			t.Errorf("%v: %s, want %q", c.args, out, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ca.json")); err == nil {
		t.Error("revoking makes a root, which would take the place of one that is plugged in")
	}
}

// TestRootActsAsTheFoldersOwner: the control plane runs as another user, and must be able to read the files that root's commands
// write.
func TestRootActsAsTheFoldersOwner(t *testing.T) {
	const told, nobody = "FAIRWAY_TEST_STATE", 65534
	if dir := os.Getenv(told); dir != "" { // the command's own process
		for _, args := range [][]string{{"token", "create", "-n", "shop"}, {"ca", "revoke", "shop/web"}} {
			if _, err := execute(t, append(args, "--caStateDir", dir)...); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("root alone may act as others")
	}
	above, err := os.MkdirTemp("", "state")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(above) })
	dir := filepath.Join(above, "ca")
	for _, err := range []error{os.Chmod(above, 0o755), os.Mkdir(dir, 0o700), os.Chown(dir, nobody, nobody)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(os.Args[0], "-test.run=^TestRootActsAsTheFoldersOwner$")
	command.Env = append(os.Environ(), told+"="+dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"join-tokens.json", "revoked.json", ".lock"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != nobody || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v of user %d", name, info.Mode(), owner.Uid)
		}
	}
}
