// Package previousbin builds the programs of the previous release from the checkout's history, for tests of releases side by side.
//
// The programs are in the user's cache folder, one folder for each commit. So a fresh clone on the same machine builds nothing again. A
// build takes a minute or two; any number of processes may ask at once, one builds and the others wait for it.
//
// The package is tooling: nothing under internal/ may import it save tests.
package previousbin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"fairway/build/binary"
	"fairway/build/envoybin"
)

// Commit is the previous release. A release sets it to its own commit once it is out.
const Commit = "33b3bc142ac3cc25a0bafb7c1e32c2e16c49ba66"

// ErrNoHistory says that the checkout's history does not have Commit: a shallow clone, or sources without git.
var ErrNoHistory = errors.New("this checkout's history does not have the previous release, " + Commit + ": clone without --depth")

// Obtain returns a folder with pilot-discovery, pilot-agent and pilotctl of the previous release, building them first if they are
// missing. It reports its progress to log. It fails with ErrNoHistory if they cannot be built here.
func Obtain(ctx context.Context, log io.Writer) (string, error) {
	root, err := envoybin.Root()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for caches: %w", err)
	}
	dir := filepath.Join(cache, "fairway", "previous-"+Commit[:12])
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := binary.Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if binary.IsExecutable(filepath.Join(dir, "pilotctl")) {
		return dir, nil
	}
	if exec.CommandContext(ctx, "git", "-C", root, "cat-file", "-e", Commit+"^{commit}").Run() != nil {
		return "", ErrNoHistory
	}
	begun := time.Now()
	fmt.Fprintf(log, "building the previous release (%s)\n", Commit[:12])
	if err := build(ctx, log, root, dir); err != nil {
		return "", fmt.Errorf("build the previous release: %w", err)
	}
	fmt.Fprintf(log, "built in %s\n", time.Since(begun).Round(time.Second))
	return dir, nil
}

// build builds in a scratch folder, and renames the programs into place as a whole.
func build(ctx context.Context, log io.Writer, root, dir string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(dir), "previous-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	sources, programs := filepath.Join(scratch, "sources"), filepath.Join(scratch, "programs")
	for _, folder := range []string{sources, programs} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
	}
	archive := filepath.Join(scratch, "sources.tar")
	for _, c := range []*exec.Cmd{
		exec.CommandContext(ctx, "git", "-C", root, "archive", "--output", archive, Commit),
		exec.CommandContext(ctx, "tar", "-xf", archive, "-C", sources),
		exec.CommandContext(ctx, "make", "-C", sources, "build"),
	} {
		c.Stdout, c.Stderr = log, log
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", c.Args[0], err)
		}
	}
	for _, name := range []string{"pilot-discovery", "pilot-agent", "pilotctl"} {
		if err := os.Rename(filepath.Join(sources, "bin", name), filepath.Join(programs, name)); err != nil {
			return err
		}
	}
	return os.Rename(programs, dir)
}
