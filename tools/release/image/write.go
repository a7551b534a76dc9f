package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Images are the images of one kind, by architecture.
type Images map[string]v1.Image

// Write writes the images of a kind below a folder: <kind> is an OCI image layout with all architectures, and
// <kind>-<version>-linux-<architecture>.tar is what `docker load`, `podman load` and `ctr images import` read.
func (s Source) Write(k Kind, images Images, archs []string, hub, to string) error {
	tag, err := name.NewTag(hub+"/"+k.Name+":"+s.Version, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("HUB=%s: %w", hub, err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range archs {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: images[arch], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir := filepath.Join(to, k.Name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	annotations := map[string]string{"org.opencontainers.image.ref.name": s.Version}
	if err := path.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	for _, arch := range archs {
		file := filepath.Join(to, fmt.Sprintf("%s-%s-linux-%s.tar", k.Name, s.Version, arch))
		if err := tarball.WriteToFile(file, tag, images[arch]); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// Push copies the image of a layout that Write wrote to a registry, for all architectures. Credentials are those of `docker login`.
func Push(ctx context.Context, dir, reference string, options ...name.Option) error {
	path, err := layout.FromPath(dir)
	if err != nil {
		return fmt.Errorf("%s is no image layout: %w; run make images", dir, err)
	}
	outer, err := path.ImageIndex()
	if err != nil {
		return err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%s has %d images; want one, as make images writes it", dir, len(manifest.Manifests))
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(reference, options...)
	if err != nil {
		return err
	}
	return remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}
