package consulbin

import (
	"errors"
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
	module := filepath.Join(root, "tools", "consul")
	dir, err := folderOf(module)
	if err != nil {
		return place{}, err
	}
	return place{module, filepath.Join(dir, "consul")}, nil
}

// folderOf returns the folder of the binary that is built of a module.
func folderOf(module string) (string, error) {
	how := strings.Join(append([]string{runtime.Version(), runtime.GOOS, runtime.GOARCH}, flags()...), " ")
	return binary.Cached("consul", how, module, "go.mod", "go.sum")
}

// flags are those of go build.
func flags() []string {
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w"}
}
