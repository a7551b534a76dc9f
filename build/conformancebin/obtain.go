package conformancebin

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairway/build/binary"
	"fairway/build/envoybin"
)

// Programs are the paths of the built programs.
type Programs struct {
	Suite string // the test binary of test/conformance
	Echo  string // echo-basic, the entry point of the suite's image of that name
}

// bound is how long a build may take, with its downloads.
const bound = 20 * time.Minute

var (
	flags  = []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w"}
	builds = [...]struct {
		name string
		args []string
	}{
		{"suite", []string{"test", "-vet=off", "-c", "."}},
		{"echo-basic", []string{"build", "sigs.k8s.io/gateway-api-conformance-images/echo-basic"}},
	}
)

// Obtain returns the programs, building them first where they are missing. It logs its progress to log.
func Obtain(ctx context.Context, log io.Writer) (Programs, error) {
	root, err := envoybin.Root()
	if err != nil {
		return Programs{}, err
	}
	module := filepath.Join(root, "test", "conformance")
	sources, err := filepath.Glob(filepath.Join(module, "*.go"))
	if err != nil {
		return Programs{}, err
	}
	var files []string
	for _, path := range sources {
		files = append(files, filepath.Base(path))
	}
	dir, err := binary.Cached("conformance", strings.Join(flags, " "), module, append(files, "go.mod", "go.sum")...)
	if err != nil {
		return Programs{}, err
	}
	out := Programs{filepath.Join(dir, builds[0].name), filepath.Join(dir, builds[1].name)}
	if out.complete() {
		return out, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Programs{}, fmt.Errorf("make the folder of the conformance suite: %w", err)
	}
	unlock, err := binary.Lock(dir + ".lock")
	if err != nil {
		return Programs{}, err
	}
	defer unlock()
	if out.complete() { // another process was faster
		return out, nil
	}
	fmt.Fprintf(log, "building the Gateway API conformance suite into %s: this takes minutes, once\n", dir)
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for _, b := range builds {
		if err := build(ctx, log, module, filepath.Join(dir, b.name), b.args); err != nil {
			return Programs{}, fmt.Errorf("build %s of test/conformance: %w", b.name, err)
		}
	}
	return out, nil
}

func (p Programs) complete() bool { return binary.IsExecutable(p.Suite) && binary.IsExecutable(p.Echo) }

// build runs the go command in a module, and renames the result to path.
func build(ctx context.Context, log io.Writer, module, path string, args []string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	built := filepath.Join(scratch, "program")
	all := slices.Concat(args[:1], flags, []string{"-o", built}, args[1:])
	if err := binary.Go(ctx, log, module, []string{"GOTOOLCHAIN=auto"}, all...); err != nil {
		return err
	}
	return os.Rename(built, path)
}
