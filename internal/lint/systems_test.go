package lint

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// anywhere are the names of package syscall that every system has, as far as pilotctl uses them.
var anywhere = []string{
	"ECONNREFUSED", "ECONNRESET", "EINTR", "EINVAL", "ENOENT", "ENOSPC", "ENOTDIR", "EPIPE", "Errno", "O_NONBLOCK", "RawConn", "SIGHUP",
	"SIGINT", "SIGKILL", "SIGTERM", "Signal",
}

// elsewhere are packages that a system lacks.
var elsewhere = map[string][]string{
	"windows": {"golang.org/x/sys/unix", "github.com/google/nftables", "github.com/vishvananda/netlink", "log/syslog"},
	"darwin":  {"github.com/google/nftables", "github.com/vishvananda/netlink", "golang.org/x/sys/windows"},
}

// TestPilotctlBuildsOnOtherSystems: the files of pilotctl that a build for Windows or macOS compiles use only what these systems have.
// The release builds both, which takes minutes; this finds most of what would break that in a second.
func TestPilotctlBuildsOnOtherSystems(t *testing.T) {
	for _, system := range []string{"windows", "darwin"} {
		list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Standard", "./cmd/pilotctl")
		list.Dir, list.Env = "../..", append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		rooms := 0
		for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
			var pkg struct {
				ImportPath, Dir string
				GoFiles         []string
			}
			if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if !within(pkg.ImportPath, module) {
				continue
			}
			rooms++
			if len(pkg.GoFiles) == 0 {
				t.Errorf("%s has no file for %s", pkg.ImportPath, system)
			}
			for _, name := range pkg.GoFiles {
				for _, use := range foreign(t, filepath.Join(pkg.Dir, name), system) {
					t.Errorf("%s/%s uses %s, which %s does not have: put it into a file with a build tag",
						pkg.ImportPath, name, use, system)
				}
			}
		}
		if rooms < 50 {
			t.Errorf("%s: only %d packages were found", system, rooms)
		}
	}
}

// foreign returns what a file uses that a system does not have.
func foreign(t *testing.T, path, system string) (out []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range tree.Imports {
		if name := strings.Trim(i.Path.Value, `"`); slices.Contains(elsewhere[system], name) {
			out = append(out, name)
		}
	}
	unix := strings.HasSuffix(path, "_unix.go")
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is && !(unix && system == "darwin") {
			if pkg, named := s.X.(*ast.Ident); named && pkg.Name == "syscall" && !slices.Contains(anywhere, s.Sel.Name) {
				out = append(out, "syscall."+s.Sel.Name)
			}
			// golang.org/x/sys/unix has constants of Linux alone, as TCGETS.
			if pkg, named := s.X.(*ast.Ident); named && pkg.Name == "unix" && strings.HasPrefix(s.Sel.Name, "TC") {
				out = append(out, "unix."+s.Sel.Name)
			}
		}
		return true
	})
	return out
}

// TestForeignCodeIsFound: the check finds what it is for.
func TestForeignCodeIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.go")
	text := "package x\nimport (\n\"syscall\"\n\"golang.org/x/sys/unix\"\n)\nvar _, _ = syscall.Stat_t{}, unix.TCGETS\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for system, want := range map[string]string{
		"windows": "golang.org/x/sys/unix syscall.Stat_t unix.TCGETS", "darwin": "syscall.Stat_t unix.TCGETS",
	} {
		if got := strings.Join(foreign(t, path, system), " "); got != want {
			t.Errorf("%s: %s, want %s", system, got, want)
		}
	}
}
