package release_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fairway"
	"fairway/test/netns"
	"fairway/test/release/unpacked"
	"fairway/test/rig"
)

// image is an image that was unpacked.
type image struct{ unpacked.Image }

// unpack unpacks an image, with the devices that programs of it open.
func unpack(t *testing.T, layout string) image {
	t.Helper()
	out := unpacked.Unpack(t, layout)
	for _, dir := range []string{"proc", "dev"} { // those of a container's runtime
		if err := os.Mkdir(filepath.Join(out.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, minor := range map[string]string{"null": "3", "urandom": "9"} {
		if err := command(out.Root, "mknod", "-m", "666", "dev/"+name, "c", "1", minor); err != nil {
			t.Fatal(err)
		}
	}
	return image{out}
}

// words are the command that runs the image's entry point as its user, in a mount namespace in which nothing is but the image.
func (i image) words(args ...string) []string {
	user, group, _ := strings.Cut(i.User, ":")
	out := []string{"--mount", "--mount-proc", "--root=" + i.Root, "--wd=" + i.Dir, "--setgid=" + group, "--setuid=" + user, "--"}
	out = append(out, i.Entrypoint...)
	if len(args) == 0 {
		args = i.Cmd
	}
	return append(out, args...)
}

// says runs the entry point to its end.
func (i image) says(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.Command("unshare", i.words(args...)...)
	c.Env = i.Env
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// starts starts the entry point in a network namespace.
func (i image) starts(t *testing.T, name string, in *netns.Namespace, env []string, args ...string) *rig.Process {
	t.Helper()
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	return rig.Launch(t, rig.Command{Name: name, Path: path, Args: i.words(args...), Env: append(i.Env, env...), Dir: i.Root, In: in})
}

// TestImages: each image, unpacked, runs its entry point as user 1337 with nothing of this machine: the control plane serves the rules of a
// folder, and the proxy's agent starts Envoy, which gets its configuration from there.
func TestImages(t *testing.T) {
	tool, programs := need(t, "apt-get", "dpkg-deb", "unshare", "tar", "mknod")
	to := images(t, tool, programs, "")
	of := func(name string) image { return unpack(t, filepath.Join(to, name)) }
	pilot, proxy, ctl := of("pilot"), of("proxyv2"), of("pilotctl")
	for program, i := range map[string]image{"pilot-discovery": pilot, "pilot-agent": proxy, "pilotctl": ctl} {
		if i.User != "1337:1337" || i.Dir != "/" || !slices.Equal(i.Entrypoint, []string{"/usr/local/bin/" + program}) {
			t.Errorf("%s: user %s, folder %s, entry point %q", program, i.User, i.Dir, i.Entrypoint)
		}
		if i.Labels["org.opencontainers.image.version"] != fairway.Release || i.Labels["org.opencontainers.image.revision"] == "" {
			t.Errorf("%s: labels %v", program, i.Labels)
		}
		if out := i.says(t, "--version"); !strings.Contains(out, program+" version "+fairway.Version) {
			t.Errorf("%s --version says %q", program, out)
		}
		if roots, err := os.ReadFile(filepath.Join(i.Root, "etc/ssl/certs/ca-certificates.crt")); err != nil ||
			strings.Count(string(roots), "BEGIN CERTIFICATE") < 50 {
			t.Errorf("%s: roots %v, %d bytes", program, err, len(roots))
		}
	}
	if out := ctl.says(t, "version", "--remote=false"); !strings.Contains(out, fairway.Version) {
		t.Errorf("pilotctl version says %q", out)
	}

	in := netns.New(t)
	in.Wire(t, func(l netns.Links) { l.Up("lo", "127.0.0.1/8") })
	rig.Write(t, pilot.Root, "rules/web.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec: {hosts: [web.example], location: MESH_INTERNAL, resolution: STATIC, addresses: [127.9.0.1],
  ports: [{number: 9080, name: http, protocol: HTTP}], endpoints: [{address: 127.0.0.1, ports: {http: 9080}}]}
`))
	plane := pilot.starts(t, "pilot", in, nil, "discovery", "--configDir=/rules", "--registries=", "--shutdownDuration=10ms",
		"--grpcAddr=127.0.0.1:15010", "--secureGRPCAddr=", "--httpAddr=127.0.0.1:8080", "--httpsAddr=", "--monitoringAddr=")
	answers(t, in, plane, "http://127.0.0.1:8080/ready", "")
	agent := proxy.starts(t, "proxyv2", in, []string{
		"POD_NAME=web-1", "POD_NAMESPACE=default", "INSTANCE_IP=127.0.0.1", "ISTIO_META_INTERCEPTION_MODE=NONE",
		"MINIMUM_DRAIN_DURATION=0s",
	}, "proxy", "sidecar", "--discoveryAddress", "127.0.0.1:15010", "--concurrency", "1")
	answers(t, in, agent, "http://127.0.0.1:15021/healthz/ready", "")
	answers(t, in, agent, "http://127.0.0.1:15000/clusters", "outbound|9080||web.example::127.0.0.1:9080::")
}

// answers waits until a page of a process is there and has a text.
func answers(t *testing.T, in *netns.Namespace, p *rig.Process, url, want string) {
	t.Helper()
	rig.Eventually(t, func() error {
		p.Running(t)
		code, body, err := rig.Call(http.MethodGet, url, in.DialContext)
		if err == nil && (code != http.StatusOK || !strings.Contains(body, want)) {
			err = fmt.Errorf("%s: %d without %q: %.2000s", url, code, want, body)
		}
		return err
	})
}

// hashes are those of all files of a folder, by name.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		sum := sha256.Sum256(text)
		out[strings.TrimPrefix(path, dir)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestImagesAreReproducible: the same files make the same images, whenever and wherever they lie.
func TestImagesAreReproducible(t *testing.T) {
	tool, _ := need(t, "apt-get", "dpkg-deb")
	var all []map[string]string
	for range 2 {
		dir := rig.Folder(t)
		for _, name := range []string{"pilot-discovery", "pilot-agent", "pilotctl", "envoy"} {
			rig.Write(t, filepath.Join(dir, "linux-"+runtime.GOARCH), name, []byte("#!/bin/sh\n# "+name+"\n"))
		}
		all = append(all, hashes(t, images(t, tool, dir, filepath.Join(dir, "linux-"+runtime.GOARCH, "envoy"))))
	}
	if len(all[0]) < 3*6 || !maps.Equal(all[0], all[1]) {
		t.Errorf("two builds are\n%v\n%v", all[0], all[1])
	}
}
