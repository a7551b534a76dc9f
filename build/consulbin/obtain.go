package consulbin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"fairway/build/binary"
)

// builder puts the program of a module at path.
type builder func(ctx context.Context, log io.Writer, module, path string) error

// Obtain returns the path of the binary to run, building it first where it is missing.
// What it says of its progress goes to log. Concurrent calls, in this process or others, build once.
func Obtain(ctx context.Context, log io.Writer) (string, error) {
	path, err := Find()
	if !errors.Is(err, ErrNotObtained) {
		return path, err
	}
	p, err := locate()
	if err != nil {
		return "", err
	}
	return p.binary, install(ctx, log, p, goBuild)
}

// install builds the binary, holding a lock beside it meanwhile, and renames it into place.
func install(ctx context.Context, log io.Writer, p place, build builder) error {
	dir := filepath.Dir(p.binary)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of Consul: %w", err)
	}
	unlock, err := binary.Lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if binary.IsExecutable(p.binary) { // another process was faster
		return nil
	}
	scratch, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return fmt.Errorf("make a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)

	begun := time.Now()
	fmt.Fprintf(log, "building Consul %s into %s: this takes minutes, once\n", Version, dir)
	built := filepath.Join(scratch, "consul")
	if err := build(ctx, log, p.module, built); err != nil {
		return fmt.Errorf("build Consul: %w; or set %s to the path of a Consul", err, Variable)
	}
	if !binary.IsExecutable(built) {
		return errors.New("build Consul: no program came of it")
	}
	if err := os.Rename(built, p.binary); err != nil {
		return fmt.Errorf("build Consul: %w", err)
	}
	fmt.Fprintf(log, "built in %s\n", time.Since(begun).Round(time.Second))
	return nil
}

// program is the package that is built, a tool of the module.
const program = "github.com/hashicorp/consul"

// goBuild builds a module with the installed Go.
func goBuild(ctx context.Context, log io.Writer, module, path string) error {
	return binary.Build(ctx, log, module, program, path, flags())
}
