// Package published reads the CRDs of Istio and of the Gateway API as their releases have them. Only code generation and tests use it.
package published

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Istio returns Istio's CRDs: YAML documents in one text.
func Istio() ([]byte, error) {
	module, err := moduleDir("istio.io/api")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(module, "kubernetes", "customresourcedefinitions.gen.yaml"))
}

// moduleDir asks the go tool where the version of the module that go.mod names is unpacked, and has it fetched if need be.
func moduleDir(path string) (string, error) {
	if out, err := exec.Command("go", "mod", "download", path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", path, err, out)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// gatewayAPI is the release of the Gateway API whose CRDs are read, and the hash of its module, as go.sum would have it. Its Go code wants
// a newer Go than ours, so that the module cannot be one of go.mod's: its archive alone is read.
const (
	gatewayAPI = "sigs.k8s.io/gateway-api@v1.7.0"
	gatewaySum = "h1:duVnm7nO6oXfMMUWfcDoBph47CYR/ME3NGxccOVglaY="
)

// GatewayAPI returns the CRDs of the experimental channel, which has all that the standard one has: a YAML document a file, by its name.
func GatewayAPI() (map[string][]byte, error) {
	archive, err := gatewayArchive()
	if err != nil {
		return nil, err
	}
	files, err := zip.OpenReader(archive)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", gatewayAPI, err)
	}
	defer func() { _ = files.Close() }()
	out := map[string][]byte{}
	for _, f := range files.File {
		dir, name := path.Split(f.Name)
		if !strings.HasSuffix(dir, "/config/crd/experimental/") || !strings.HasPrefix(name, "gateway.networking.k8s.io_") {
			continue
		}
		if out[name], err = content(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no CRDs where they were", gatewayAPI)
	}
	return out, nil
}

func content(f *zip.File) ([]byte, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return io.ReadAll(in)
}

// gatewayArchive returns the module's archive, which the go tool fetches if need be.
func gatewayArchive() (string, error) {
	download := exec.Command("go", "mod", "download", "-json", gatewayAPI)
	download.Env = append(os.Environ(), "GONOSUMDB=sigs.k8s.io/gateway-api") // its hash is compared here
	out, err := download.Output()
	var got struct{ Zip, Sum, Error string }
	if wrong := json.Unmarshal(out, &got); wrong != nil {
		return "", fmt.Errorf("go mod download %s: %w", gatewayAPI, errors.Join(err, wrong))
	}
	switch { // it fails for the newer Go alone, with the archive at hand
	case got.Zip == "":
		return "", fmt.Errorf("go mod download %s: %s", gatewayAPI, got.Error)
	case got.Sum != gatewaySum:
		return "", fmt.Errorf("%s has the hash %s, want %s", gatewayAPI, got.Sum, gatewaySum)
	}
	return got.Zip, nil
}
