package extensions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"fairway/internal/envoy/extension"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// mostManifest bounds a manifest and other metadata of an image, in bytes.
const mostManifest = 1 << 20

// pull gets a module from an image: the layer that is one, else the archive that holds one. sum is the SHA-256 that the manifest
// must have, in hex; empty: any. shown holds the order's credentials for the registry; empty: those of the machine.
func (s *Set) pull(ctx context.Context, reference, sum, shown string) ([]byte, error) {
	repo, err := remote.NewRepository(reference)
	if err != nil {
		return nil, fmt.Errorf("%q names no image: %w", reference, err)
	}
	host := repo.Reference.Host()
	repo.PlainHTTP, repo.MaxMetadataBytes = s.inTheClear(host), mostManifest
	transport := guarded{s.client.Transport, host, repo.PlainHTTP}
	repo.Client = &auth.Client{
		Client:     &http.Client{Transport: transport, CheckRedirect: s.client.CheckRedirect},
		Credential: func(_ context.Context, of string) (auth.Credential, error) { return s.credential(of, host, shown) },
	}
	at := repo.Reference.Reference
	if at == "" {
		at = "latest"
	}
	manifest, err := s.manifest(ctx, repo, at, sum, true)
	if err != nil {
		return nil, withoutURL(err)
	}
	layer, err := choose(manifest.Layers)
	if err != nil {
		return nil, err
	}
	if layer.Size > mostBytes {
		return nil, errTooLarge
	}
	r, err := repo.Blobs().Fetch(ctx, layer)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer r.Close()
	raw, err := content.ReadAll(&bounded{r, mostBytes}, layer) // it compares size and digest
	if err != nil {
		return nil, err
	}
	module, err := unpack(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return module, isModule(module)
}

// manifest reads an image's manifest; for an index, that of its first image for Wasm, else of its first image.
func (s *Set) manifest(ctx context.Context, repo *remote.Repository, at, sum string, index bool) (*ocispec.Manifest, error) {
	desc, r, err := repo.Manifests().FetchReference(ctx, at)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if desc.Size > mostManifest {
		return nil, errors.New("the manifest is too large")
	}
	if sum != "" && desc.Digest.String() != "sha256:"+sum {
		return nil, &withheld{"the image's digest is not the one in sha256", fmt.Errorf("it is %s, and sha256 says %s", desc.Digest, sum)}
	}
	raw, err := content.ReadAll(&bounded{r, mostManifest}, desc)
	if err != nil {
		return nil, err
	}
	var both struct {
		ocispec.Manifest
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &both); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if len(both.Manifests) == 0 {
		return &both.Manifest, nil
	}
	if !index {
		return nil, errors.New("an index of images leads to another one")
	}
	next := both.Manifests[0]
	for _, m := range both.Manifests {
		if m.Platform != nil && strings.HasPrefix(m.Platform.Architecture, "wasm") {
			next = m
			break
		}
	}
	return s.manifest(ctx, repo, next.Digest.String(), "", false)
}

// choose returns the layer with the module: the first with a media type that ends in wasm; else
// the last, which is an archive (https://github.com/solo-io/wasm/blob/master/spec/spec-compat.md).
func choose(layers []ocispec.Descriptor) (ocispec.Descriptor, error) {
	for _, l := range layers {
		if strings.HasSuffix(l.MediaType, "wasm") {
			return l, nil
		}
	}
	if len(layers) == 0 {
		return ocispec.Descriptor{}, errors.New("the image has no layers")
	}
	return layers[len(layers)-1], nil
}

// inTheClear reports whether a registry is used without TLS: only one of this machine is.
func (s *Set) inTheClear(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

// guarded refuses requests without TLS, except to a registry of this machine.
type guarded struct {
	to    http.RoundTripper
	host  string
	plain bool // the registry is of this machine
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !(g.plain && r.URL.Host == g.host) {
		return nil, fmt.Errorf("the registry sends to %s without TLS", r.URL.Host)
	}
	return g.to.RoundTrip(r)
}

// credential returns the login for a registry: from the order, else from the machine's credentials, both in the form of Docker's
// config.json; none for a host other than the image's own.
func (s *Set) credential(of, host, ordered string) (auth.Credential, error) {
	if of != host {
		return auth.EmptyCredential, nil
	}
	raw := []byte(ordered)
	if ordered == "" && s.o.Credentials != nil {
		var err error
		if raw, err = s.o.Credentials(); err != nil {
			return auth.EmptyCredential, err
		}
	}
	if len(raw) == 0 {
		return auth.EmptyCredential, nil
	}
	user, password, err := extension.Login(raw, host)
	return auth.Credential{Username: user, Password: password}, err
}
