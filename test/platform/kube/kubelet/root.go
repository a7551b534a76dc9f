package kubelet

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// own are this machine's folders that every container sees, read-only: what programs that are not static need to run.
var own = [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"}

// devices are those of every container.
var devices = [...]string{"null", "zero", "full", "random", "urandom", "tty"}

// fileSystem puts the container's root file system together and goes there. Nothing of it is seen outside of this process's
// mount namespace, and it goes with that.
func (e entry) fileSystem() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", e.Root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if e.Image != "" {
		if err := e.overlay(); err != nil {
			return fmt.Errorf("root: %w", err)
		}
	}
	at := func(path string) string { return filepath.Join(e.Root, path) }
	for _, dir := range []string{"/proc", "/dev/shm", "/tmp", "/etc", "/old"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			return err
		}
	}
	mounts := make([]mount, 0, len(own)+len(devices)+len(e.Mounts))
	for _, dir := range own {
		if e.Image != "" {
			break
		}
		if to, err := os.Readlink(dir); err == nil {
			if err := os.Symlink(to, at(dir)); err != nil {
				return err
			}
		} else if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, mount{dir, dir, true})
		}
	}
	for _, d := range devices {
		mounts = append(mounts, mount{"/dev/" + d, "/dev/" + d, false})
	}
	for _, m := range append(mounts, e.Mounts...) {
		if err := m.in(e.Root); err != nil {
			return fmt.Errorf("%s: %w", m.To, err)
		}
	}
	return e.turn(at)
}

// overlay lays an empty file system over the image, so that the container may write, and the image stays.
func (e entry) overlay() error {
	up, work := filepath.Join(e.Root, "up"), filepath.Join(e.Root, "work")
	for _, dir := range []string{up, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("overlay", e.Root, "overlay", 0, "lowerdir="+e.Image+",upperdir="+up+",workdir="+work)
}

// turn completes the file system and makes it the root.
func (e entry) turn(at func(string) string) error {
	for name, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+to, at("/dev/"+name)); err != nil {
			return err
		}
	}
	const passwd, group = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", "root:x:0:\nnogroup:x:65534:\n"
	files := map[string]string{"/etc/passwd": passwd, "/etc/group": group, "/etc/hostname": e.Hostname + "\n"}
	for path, text := range files {
		if _, err := os.Stat(at(path)); err == nil {
			continue // the image has it
		}
		if err := os.WriteFile(at(path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, m := range [...]struct{ kind, to string }{{"proc", "/proc"}, {"tmpfs", "/dev/shm"}, {"tmpfs", "/tmp"}} {
		if err := unix.Mount(m.kind, at(m.to), m.kind, 0, ""); err != nil {
			return fmt.Errorf("%s: %w", m.to, err)
		}
		if m.kind == "tmpfs" {
			if err := os.Chmod(at(m.to), 0o1777); err != nil {
				return err
			}
		}
	}
	if err := unix.PivotRoot(e.Root, at("/old")); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Remove("/old"); err != nil || !e.ReadOnly {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

// in binds a file or a folder into a root file system, and makes the mount point.
func (m mount) in(root string) error {
	to := filepath.Join(root, m.To)
	s, err := os.Stat(m.From)
	if err != nil {
		return err
	}
	if s.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(to, os.O_CREATE, 0o644); err == nil {
			f.Close()
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(m.From, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil || !m.ReadOnly {
		return err
	}
	return unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}
