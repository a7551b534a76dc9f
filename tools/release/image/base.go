package image

import (
	"archive/tar"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"fairway/tools/release/debian"
	"fairway/tools/release/layer"
)

// Packages of Debian that files come from.
const (
	certificates = "ca-certificates"
	library      = "libc6"
)

// accounts are the users and groups of an image.
const (
	users = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n" +
		"istio-proxy:x:1337:1337:istio-proxy:/:/sbin/nologin\n"
	groups = "root:x:0:\nnogroup:x:65534:\nistio-proxy:x:1337:\n"
	lookup = "hosts: files dns\n"
)

// own are the folders that the programs write to, unless a container mounts others there.
var own = []string{"/var/lib/fairway", "/var/lib/istio", "/var/lib/istio/data", "/etc/istio", "/etc/istio/proxy", "/var/run/secrets"}

// base returns the lowest layer: roots of certificates, users, folders and, for Envoy, the C library.
func (s Source) base(ctx context.Context, k Kind, arch string) (*layer.Layer, error) {
	l := layer.New()
	l.Text("/etc/passwd", users)
	l.Text("/etc/group", groups)
	l.Text("/etc/nsswitch.conf", lookup)
	l.Dir("/tmp", 0o1777, layer.Root)
	for _, dir := range own {
		l.Dir(dir, 0o755, layer.Proxy)
	}
	names := []string{certificates}
	if k.Envoy {
		names = append(names, library)
		release, err := os.ReadFile("/etc/os-release") // apt's sources are of this release
		if err != nil {
			return nil, err
		}
		l.Text("/etc/os-release", string(release))
	}
	packages, err := debian.Get(ctx, s.Debian, arch, names...)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		if err := add(ctx, l, p); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// add adds the files of a package that an image needs, and says in the image that it is there: scanners of images read that.
func add(ctx context.Context, l *layer.Layer, p debian.Package) error {
	roots := map[string][]byte{}
	err := p.Files(ctx, func(h *tar.Header, content []byte) error {
		name := path.Clean("/" + h.Name)
		switch {
		case name == "/usr/share/doc/"+p.Name+"/copyright":
			return l.Copy(h, content)
		case p.Name == certificates && strings.HasSuffix(name, ".crt") && h.Typeflag == tar.TypeReg:
			roots[name] = content
		case p.Name == library && needed(name) && h.Typeflag != tar.TypeDir:
			return l.Copy(h, content)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if p.Name == certificates {
		if len(roots) == 0 {
			return fmt.Errorf("%s has no certificates", p.File)
		}
		var bundle strings.Builder
		for _, name := range slices.Sorted(maps.Keys(roots)) {
			bundle.WriteString(strings.TrimSpace(string(roots[name])) + "\n")
		}
		l.Text("/etc/ssl/certs/ca-certificates.crt", bundle.String())
	}
	control, err := p.Control(ctx)
	if err != nil {
		return err
	}
	l.Text("/var/lib/dpkg/status.d/"+p.Name, control)
	return nil
}

// needed reports whether Envoy may need a file of the C library: not the converters of character sets.
func needed(name string) bool {
	name = strings.TrimPrefix(name, "/usr")
	return strings.HasPrefix(name, "/lib") && strings.Contains(path.Base(name), ".so") && !strings.Contains(name, "/gconv/")
}
