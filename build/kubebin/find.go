package kubebin

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"fairway/build/binary"
	"fairway/build/envoybin"
)

// Version is the Kubernetes release that tools/kube requires; what the API server says of itself.
const Version = "1.36.3"

// Variable is the environment variable that names another binary.
const Variable = "KUBESERVER"

// ErrNotObtained says that KUBESERVER is unset and the binary has not been built yet.
var ErrNotObtained = errors.New("no Kubernetes here: run `make kube`, or set KUBESERVER to the path of a binary built of tools/kube")

// Find returns the absolute path of the binary to run, without building anything.
// It fails with ErrNotObtained where there is none, and with another error where KUBESERVER names what cannot be run.
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
	module := filepath.Join(root, "tools", "kube")
	dir, err := folderOf(module)
	if err != nil {
		return place{}, err
	}
	return place{module, filepath.Join(dir, "kube")}, nil
}

// folderOf returns the folder of the binary that is built of a module.
func folderOf(module string) (string, error) {
	how := strings.Join(append([]string{runtime.Version(), runtime.GOOS, runtime.GOARCH}, flags()...), " ")
	return binary.Cached("kube", how, module, "go.mod", "go.sum", "main.go")
}

// flags are those of go build. The API server tells its version to clients, who need one that parses.
func flags() []string {
	const stamp = "k8s.io/component-base/version"
	minor := strings.Split(Version, ".")[1]
	set := func(name, value string) string { return "-X " + stamp + "." + name + "=" + value }
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", strings.Join([]string{
		"-s -w",
		set("gitMajor", "1"), set("gitMinor", minor), set("gitVersion", "v"+Version),
		set("gitCommit", strings.Repeat("0", 40)), set("gitTreeState", "clean"), set("buildDate", "1970-01-01T00:00:00Z"),
	}, " ")}
}
