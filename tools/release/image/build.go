package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fairway/tools/release/layer"
)

// Kind is one of the images.
type Kind struct {
	Name    string // the last part of the reference
	Program string
	Command []string // behind the entry point, unless a container says another
	Envoy   bool     // the image has an Envoy, and the C library that it needs
	Title   string
	About   string
}

// Kinds are all images.
var Kinds = []Kind{
	{Name: "pilot", Program: "pilot-discovery", Title: "Fairway pilot", About: "The control plane of a Fairway service mesh"},
	{
		Name: "proxyv2", Program: "pilot-agent", Command: []string{"proxy", "sidecar"}, Envoy: true, Title: "Fairway proxy",
		About: "Envoy and the agent that runs it beside a workload, or at a gateway of a Fairway service mesh",
	},
	{Name: "pilotctl", Program: "pilotctl", Title: "Fairway pilotctl", About: "The command line of a Fairway service mesh"},
}

// Source names the parts of images.
type Source struct {
	Programs string // folder with linux-<architecture>/<program>
	Envoys   map[string]string
	Debian   string // folder that keeps packages of Debian
	Scratch  string // folder for layers; they are read until the images are written

	Version, Commit string
	Date            time.Time
}

// folder is where programs are in an image.
const folder = "/usr/local/bin/"

// Build returns an image for an architecture.
func (s Source) Build(ctx context.Context, k Kind, arch string) (v1.Image, error) {
	base, err := s.base(ctx, k, arch)
	if err != nil {
		return nil, err
	}
	program := layer.New()
	if err := program.Program(folder+k.Program, filepath.Join(s.Programs, "linux-"+arch, k.Program)); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	layers := []part{{"base", "Certificates, users and folders", base}}
	if k.Envoy {
		envoy := layer.New()
		if err := envoy.Program(folder+"envoy", s.Envoys[arch]); err != nil {
			return nil, fmt.Errorf("Envoy for %s: %w; name one with -envoy %s=PATH", arch, err, arch)
		}
		layers = append(layers, part{"envoy", "Envoy", envoy})
	}
	layers = append(layers, part{"program", k.Program, program})
	return s.assemble(k, arch, layers)
}

// part is a layer with its name, and what it holds.
type part struct {
	name, about string
	files       *layer.Layer
}

func (s Source) assemble(k Kind, arch string, parts []part) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: s.Date.UTC()}
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: created, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: "1337:1337", WorkingDir: "/", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			Entrypoint: []string{folder + k.Program}, Cmd: k.Command, Labels: s.labels(k),
		},
	})
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		file := filepath.Join(s.Scratch, k.Name+"-"+arch+"-"+p.name+".tar.gz")
		if err := p.files.Write(file); err != nil {
			return nil, err
		}
		l, err := tarball.LayerFromFile(file, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: l, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "fairway", Comment: p.about},
		})
		if err != nil {
			return nil, err
		}
	}
	return image, nil
}

// labels are those that the image specification names.
func (s Source) labels(k Kind) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": k.Title, prefix + "description": k.About, prefix + "version": s.Version, prefix + "revision": s.Commit,
		prefix + "created": s.Date.UTC().Format(time.RFC3339), prefix + "licenses": "Apache-2.0", prefix + "vendor": "Fairway",
	}
}

// Scratch makes a folder for layers, and returns what removes it.
func Scratch() (string, func(), error) {
	dir, err := os.MkdirTemp("", "layers")
	return dir, func() { os.RemoveAll(dir) }, err
}
