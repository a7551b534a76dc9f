package rig

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"fairway/build/binary"
	"fairway/build/envoybin"
)

// Program is one of this module's, a folder of cmd unless Package names another. It is built when it is first asked for.
type Program struct {
	Name    string
	Package string // ./examples/bookinfo/service; its last part is Name

	once sync.Once
	path string
	err  error
}

// Path is where the program is. Any user may run it.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	if handed := os.Getenv(p.handed()); handed != "" {
		return handed
	}
	p.once.Do(func() { p.path, p.err = build(p.Name, cmp.Or(p.Package, "./cmd/"+p.Name)) })
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

// handed is the variable that says where another process has the program.
func (p *Program) handed() string { return "FAIRWAY_PROGRAM_" + p.Name }

// Hand builds the program, and has the processes that the test starts use it: one that runs the test again builds nothing.
func (p *Program) Hand(t testing.TB) {
	t.Helper()
	t.Setenv(p.handed(), p.Path(t))
}

// Built returns the path of the program; empty if no test has asked for it, or if it could not be built.
func (p *Program) Built() string { return p.path }

// build builds the program of a folder where the checkout keeps those of all tests, and returns the path of a copy: a program that is
// there already is not linked again, and another build does not replace one that runs.
func build(name, folder string) (string, error) {
	root, err := envoybin.Root()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	shared := filepath.Join(root, ".cache", "programs")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return "", err
	}
	unlock, err := binary.Lock(filepath.Join(shared, name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	built, path := filepath.Join(shared, name), filepath.Join(dir, name)
	c := exec.Command("go", "build", "-o", built, folder)
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	if os.Link(built, path) == nil {
		return path, nil
	}
	text, err := os.ReadFile(built) // in another file system
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text, 0o755)
}

// Main is the body of a TestMain: it runs the tests, removes the programs that they built, and returns the code to exit with.
func Main(m *testing.M, programs ...*Program) int {
	code := m.Run()
	for _, p := range programs {
		if p.path != "" {
			os.RemoveAll(filepath.Dir(p.path))
		}
	}
	return code
}
