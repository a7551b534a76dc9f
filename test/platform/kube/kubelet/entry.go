package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Image replaces an image: programs of this machine, which the container finds in its PATH, under their names. The
// first is the entry point. If the first is a folder, it is an unpacked image, and the second is the entry point in it.
type Image []string

// unpacked returns the folder of an unpacked image; empty: the image is programs of this machine.
func (i Image) unpacked() string {
	if s, err := os.Stat(i[0]); err != nil || !s.IsDir() {
		return ""
	}
	return i[0]
}

// entry is how a container starts.
func (p *Pod) entry(ctx context.Context, c *corev1.Container) (entry, error) {
	image, ok := p.k.image(c.Image)
	if !ok {
		return entry{}, fmt.Errorf("ErrImagePull: nobody said what %s is", c.Image)
	}
	vars, err := p.environment(ctx, c)
	if err != nil {
		return entry{}, fmt.Errorf("CreateContainerConfigError: %w", err)
	}
	e := entry{Root: filepath.Join(p.dir, "root"), Hostname: p.name}
	e.Dir = cmp.Or(c.WorkingDir, "/")
	for _, arg := range slices.Concat(c.Command, c.Args) {
		e.Args = append(e.Args, expand(arg, vars))
	}
	first := filepath.Base(image[0])
	if e.Image = image.unpacked(); e.Image != "" {
		first, image = image[1], nil
	}
	if len(c.Command) == 0 {
		e.Args = slices.Insert(e.Args, 0, first)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		e.Env = append(e.Env, name+"="+vars[name])
	}
	for _, file := range image {
		e.Mounts = append(e.Mounts, mount{file, "/image/" + filepath.Base(file), true})
	}
	for _, name := range []string{"hosts", "resolv.conf"} {
		e.Mounts = append(e.Mounts, mount{filepath.Join(p.dir, name), "/etc/" + name, true})
	}
	for _, m := range c.VolumeMounts {
		from := filepath.Join(p.volume(m.Name), m.SubPath)
		e.Mounts = append(e.Mounts, mount{from, m.MountPath, m.ReadOnly})
	}
	p.secure(&e, c)
	return e, nil
}

// secure gives an entry its user and rights.
func (p *Pod) secure(e *entry, c *corev1.Container) {
	pod, own := p.latest().Spec.SecurityContext, c.SecurityContext
	if pod == nil {
		pod = new(corev1.PodSecurityContext)
	}
	if own == nil {
		own = new(corev1.SecurityContext)
	}
	for _, id := range []struct {
		own, pod *int64
		to       *uint32
	}{{own.RunAsUser, pod.RunAsUser, &e.User}, {own.RunAsGroup, pod.RunAsGroup, &e.Group}} {
		if first := cmp.Or(id.own, id.pod); first != nil {
			*id.to = uint32(*first)
		}
	}
	e.ReadOnly = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	e.NoMore = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	e.Rights = rights(own.Capabilities)
}

// usual are the capabilities of a container's root that says nothing of them, and the others that tests ask for.
var usual, special = map[string]uintptr{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FSETID": unix.CAP_FSETID, "FOWNER": unix.CAP_FOWNER,
	"NET_RAW": unix.CAP_NET_RAW, "SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID, "SETPCAP": unix.CAP_SETPCAP,
	"NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "KILL": unix.CAP_KILL, "MKNOD": unix.CAP_MKNOD,
	"SYS_CHROOT": unix.CAP_SYS_CHROOT, "SETFCAP": unix.CAP_SETFCAP, "AUDIT_WRITE": unix.CAP_AUDIT_WRITE,
}, map[string]uintptr{"NET_ADMIN": unix.CAP_NET_ADMIN, "SYS_ADMIN": unix.CAP_SYS_ADMIN, "SYS_PTRACE": unix.CAP_SYS_PTRACE}

func rights(wish *corev1.Capabilities) []uintptr {
	has := maps.Clone(usual)
	if wish != nil {
		for _, name := range wish.Drop {
			delete(has, string(name))
			if name == "ALL" {
				clear(has)
			}
		}
		for _, name := range wish.Add {
			has[string(name)] = usual[string(name)] + special[string(name)]
		}
	}
	return slices.Sorted(maps.Values(has))
}

// image is what an image of this name is, whatever its tag.
func (k *Kubelet) image(name string) (Image, bool) {
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		name = name[:at]
	}
	image, ok := k.images[name]
	return image, ok
}
