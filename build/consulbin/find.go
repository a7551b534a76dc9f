package consulbin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"fairway/build/binary"
	"fairway/build/envoybin"
)

// Version is the Consul release that tools/consul requires; what it says of itself.
const Version = "1.22.3"

// Variable is the environment variable that names another binary.
const Variable = "CONSULSERVER"

// ErrNotObtained says that CONSULSERVER is unset and the binary has not been built yet.
var ErrNotObtained = errors.New("no Consul here: run `go run ./build/consul`, or set CONSULSERVER to the path of a Consul")

// Find returns the absolute path of the binary to run, without building anything.
// It fails with ErrNotObtained where there is none, and with another error where CONSULSERVER names what cannot be run.
func Find() (string, error) {
	if named, err := binary.Named(Variable); named != "" || err != nil {
		return named, err
	}
	p, err := locate()
	if err != nil {
		return "", err
	}
	if binary.IsExecutable(p.binary) {
		return p.binary, nil
	}
	return "", ErrNotObtained
}

// place is what is built, and where to.
type place struct {
	module string // folder
	binary string
}

func locate() (place, error) {
	root, err := envoybin.Root()
	if err != nil {
		return place{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return place{}, fmt.Errorf("find the folder for caches: %w", err)
	}
	module := filepath.Join(root, "tools", "consul")
	key, err := keyOf(module)
	if err != nil {
		return place{}, err
	}
	return place{module, filepath.Join(cache, "fairway", "consul-"+key, "consul")}, nil
}

// keyOf is a hash of all that a binary is made of.
func keyOf(module string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(flags(), " "))
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("read what the binary is built of: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:20], nil
}

// flags are those of go build.
func flags() []string {
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w"}
}
