package binary

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Named returns the absolute path that an environment variable gives; "" where it is not set. What it names must be a
// program.
func Named(variable string) (string, error) {
	path := os.Getenv(variable)
	if path == "" {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s=%s: %w", variable, path, err)
	}
	if !IsExecutable(abs) {
		return "", fmt.Errorf("%s=%s is not an executable file", variable, path)
	}
	return abs, nil
}

// IsExecutable says whether a file is there and can be run.
func IsExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Lock takes an exclusive lock on a file, waiting for whoever holds it. The kernel drops it when its holder dies.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
