package workload

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairway/test/rig"
)

// installed writes a folder for a machine, installs it as the advice says, with a user that owns nothing, and runs the commands that the
// unit runs as root to prepare it.
func installed(t *testing.T, more ...string) (dir string, unit []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root installs a machine's folder")
	}
	dir = filepath.Join(rig.Folder(t), "agent")
	said, err := call(
		append(
			[]string{
				"--name",
				"shop",
				"-n",
				"default",
				"--ingressIP",
				"10.0.0.1",
				"--caStateDir",
				state(t, time.Hour),
				"-o",
				dir,
				"--directory",
				dir,
				"--user",
				"nobody",
				"--agent",
				"/bin/true",
				"--envoy",
				"/bin/true",
			},
			more...)...)
	if err != nil {
		t.Fatal(err)
	}
	_, install, found := strings.Cut(said, "move the folder to "+dir+" && ")
	if !found {
		t.Fatalf("the advice says nothing of whose the folder is:\n%s", said)
	}
	install, _, _ = strings.Cut(install, "\n")
	run(t, install)
	text, err := os.ReadFile(filepath.Join(dir, unitFile))
	if err != nil {
		t.Fatal(err)
	}
	unit = strings.Split(string(text), "\n")
	for _, line := range unit {
		if words, ok := strings.CutPrefix(line, "ExecStartPre=+"); ok {
			run(t, strings.TrimPrefix(words, "-"))
		}
	}
	return dir, unit
}

func run(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("/bin/sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// TestTheServicesUserWritesNothingOfRoots: the service's user can neither write nor rename the files that root reads or runs for the unit,
// nor any folder above them. It can write its state; no other user can read the state or the token.
func TestTheServicesUserWritesNothingOfRoots(t *testing.T) {
	for _, mode := range []string{"REDIRECT", "TPROXY", "NONE"} {
		t.Run(mode, func(t *testing.T) {
			dir, unit := installed(t, "--interception", mode)
			roots := map[string]bool{}
			for _, line := range unit {
				name, value, _ := strings.Cut(line, "=")
				if name != "EnvironmentFile" && name != "WorkingDirectory" && !strings.HasPrefix(value, "+") {
					continue
				}
				for word := range strings.FieldsSeq(strings.TrimLeft(value, "+-")) {
					for path := word; strings.HasPrefix(path, "/") && path != "/"; path = filepath.Dir(path) {
						roots[path] = true
					}
				}
			}
			for _, name := range []string{envFile, meshFile, rootFile, hostsFile, unitFile} {
				roots[filepath.Join(dir, name)] = true
			}
			own := map[string]bool{filepath.Join(dir, stateDir): true, filepath.Join(dir, tokenFile): true}
			err := rig.AsUser(t, rig.Nobody, func() (errs error) {
				for path := range roots {
					if own[path] || path == "/tmp" { // sticky: a user can rename only its own files
						continue
					}
					if err := unix.Access(path, unix.W_OK); err == nil {
						errs = errors.Join(errs, fmt.Errorf("the service's user can write %s", path))
					}
				}
				for path := range own {
					if err := unix.Access(path, unix.R_OK); err != nil {
						errs = errors.Join(errs, fmt.Errorf("the service's user cannot read %s: %w", path, err))
					}
				}
				token := filepath.Join(dir, tokenFile)
				if err := os.Remove(token); err == nil {
					errs = errors.Join(errs, errors.New("the service's user can put another file into the token's place"))
				}
				return errors.Join(errs, os.WriteFile(filepath.Join(dir, stateDir, "x"), nil, 0o600))
			})
			if err != nil {
				t.Error(err)
			}
			for path := range own {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s: %v, %v, want it for its owner alone", path, info, err)
				}
			}
		})
	}
}

// TestTheUnitIsValid checks the unit with systemd, if that is installed.
func TestTheUnitIsValid(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	dir, _ := installed(t, "--interception", "TPROXY", "--user", "daemon") // systemd warns of the user nobody
	out, err := exec.Command(verify, "verify", filepath.Join(dir, unitFile)).CombinedOutput()
	if err != nil || strings.Contains(string(out), unitFile) {
		t.Errorf("%v\n%s", err, out)
	}
}
