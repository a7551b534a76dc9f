// Package debian gets packages of Debian by apt, which checks their signatures, and takes their files apart.
//
// It changes nothing of this machine: apt keeps its lists in a folder of its own, and so gets packages of other architectures too. The
// machine's sources decide which release of Debian it is. Start at Get.
package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Package is a package file.
type Package struct{ Name, File string }

// Get returns the packages of an architecture, in the order of their names. They are kept in a folder, and downloaded once.
func Get(ctx context.Context, folder, arch string, names ...string) ([]Package, error) {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("packages of Debian: %w; build images on Debian, or in a container of it", err)
		}
	}
	folder, err := filepath.Abs(filepath.Join(folder, arch))
	if err != nil {
		return nil, err
	}
	names = slices.Sorted(slices.Values(names))
	out, missing := kept(folder, names)
	if len(missing) == 0 {
		return out, nil
	}
	if err := download(ctx, folder, arch, missing); err != nil {
		return nil, fmt.Errorf("get %s for %s: %w", strings.Join(missing, ", "), arch, err)
	}
	if out, missing = kept(folder, names); len(missing) > 0 {
		return nil, fmt.Errorf("get packages for %s: apt left no %s", arch, strings.Join(missing, ", "))
	}
	return out, nil
}

// kept returns the packages that a folder has, and the names that it lacks.
func kept(folder string, names []string) (out []Package, missing []string) {
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(folder, name+"_*.deb"))
		if err != nil || len(found) != 1 {
			missing = append(missing, name)
			continue
		}
		out = append(out, Package{name, found[0]})
	}
	return out, missing
}

func download(ctx context.Context, folder, arch string, names []string) error {
	apt := filepath.Join(folder, "apt")
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(apt, dir), 0o755); err != nil {
			return err
		}
	}
	defer os.RemoveAll(apt)
	status := filepath.Join(apt, "status") // nothing is installed there
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return err
	}
	options := []string{
		"-qq", "-o", "Dir::State=" + filepath.Join(apt, "state"), "-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache=" + filepath.Join(apt, "cache"), "-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch,
		"-o", "APT::Sandbox::User=" + user(),
	}
	for _, words := range [][]string{{"update"}, append([]string{"download"}, names...)} {
		c := exec.CommandContext(ctx, "apt-get", slices.Concat(options, words)...)
		c.Dir = folder
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(words, " "), err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// user returns the user for apt's downloads: root downloads as itself, because apt's own user may not write into the folder.
func user() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return ""
}

// most bounds a file of a package, in bytes.
const most = 64 << 20

// Files calls take for each file, folder and link of the package.
func (p Package) Files(ctx context.Context, take func(h *tar.Header, content []byte) error) error {
	text, err := p.ask(ctx, "--fsys-tarfile", p.File)
	if err != nil {
		return err
	}
	archive := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if h.Size > most {
			return fmt.Errorf("%s: %s has %d bytes, more than %d", p.Name, h.Name, h.Size, most)
		}
		content, err := io.ReadAll(archive)
		if err == nil {
			err = take(h, content)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
}

// Control returns what the package says of itself, as dpkg keeps it of installed ones.
func (p Package) Control(ctx context.Context) (string, error) {
	text, err := p.ask(ctx, "--field", p.File)
	return string(text), err
}

// Version returns the version of the package.
func (p Package) Version(ctx context.Context) (string, error) {
	text, err := p.ask(ctx, "--field", p.File, "Version")
	return string(bytes.TrimSpace(text)), err
}

func (p Package) ask(ctx context.Context, words ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "dpkg-deb", words...)
	var why bytes.Buffer
	c.Stderr = &why
	text, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("dpkg-deb %s: %w\n%s", strings.Join(words, " "), err, bytes.TrimSpace(why.Bytes()))
	}
	return text, nil
}
