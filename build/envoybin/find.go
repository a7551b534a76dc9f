package envoybin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"fairway/build/binary"
)

// Version is the Envoy release that the project is tested with.
const Version = "1.40.0"

// Variable is the environment variable that names another Envoy binary.
const Variable = "ENVOY"

// ErrNotObtained says that ENVOY is unset and the pinned Envoy has not been obtained yet.
var ErrNotObtained = errors.New("no Envoy here: run `make envoy` (or any other target), or set ENVOY to the path of a binary")

// Find returns the absolute path of the Envoy to run, without downloading anything.
// It fails with ErrNotObtained where there is none, and with another error where ENVOY names what cannot be run.
func Find() (string, error) {
	if named, err := binary.Named(Variable); named != "" || err != nil {
		return named, err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	if path := cached(root); binary.IsExecutable(path) {
		return path, nil
	}
	return "", ErrNotObtained
}

// Root returns the checkout's folder: the nearest one at or above the working folder that holds go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the checkout: no go.mod at or above the working folder")
		}
		dir = parent
	}
}

func cached(root string) string {
	return filepath.Join(root, ".cache", "envoy-"+Version, "envoy")
}
