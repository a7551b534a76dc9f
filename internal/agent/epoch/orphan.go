package epoch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fairway/internal/disk"
)

// orphan is an Envoy that an earlier agent started, and left behind when it was killed.
type orphan struct {
	pid    int
	epoch  uint32
	baseID uint32
	file   string // its bootstrap
	args   []string
}

// Orphaned reports whether Envoys run that an agent of this folder left behind: they have their ports, and a Supervisor adopts them.
func Orphaned(dir string) bool { return len(orphans(dir)) > 0 }

// orphans returns the Envoys of a folder, the oldest epoch first. Their command lines hold everything, so there is no state file
// that could be lost or outdated.
func orphans(dir string) []orphan {
	dir, err := canonical(dir, "")
	if err != nil {
		return nil // no folder, no Envoy
	}
	var out []orphan
	for _, o := range envoys() {
		if o.readNumbers() && filepath.Dir(o.file) == dir {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b orphan) int { return cmp.Compare(a.epoch, b.epoch) })
	return out
}

// envoys returns all Envoys of this user that agents started.
func envoys() (out []orphan) {
	entries, _ := os.ReadDir("/proc") // if it cannot be read, no Envoy is found
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if o, ok := readEnvoy(pid); ok {
			out = append(out, o)
		}
	}
	return out
}

// inUse returns the bootstraps that Envoys run with.
func inUse() map[string]bool {
	out := map[string]bool{}
	for _, o := range envoys() {
		out[o.file] = true
	}
	return out
}

// runningIDs returns the base ids of this user's Envoys, with a process of each.
func runningIDs() map[uint32]int {
	out := map[uint32]int{}
	for _, o := range envoys() {
		if o.readNumbers() {
			out[o.baseID] = o.pid
		}
	}
	return out
}

// canonical returns a path without links; a relative one is below from, or below the working folder.
func canonical(path, from string) (string, error) {
	if !filepath.IsAbs(path) && from != "" {
		path = filepath.Join(from, path)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// readNumbers reads base id and epoch; only Envoys that can be hot-restarted have them.
func (o *orphan) readNumbers() bool {
	_, err := fmt.Sscan(o.value("--base-id")+" "+o.value("--restart-epoch"), &o.baseID, &o.epoch)
	return err == nil
}

// readEnvoy reads a process that belongs to this user and was started as launch starts Envoys.
func readEnvoy(pid int) (o orphan, ok bool) {
	proc := fmt.Sprintf("/proc/%d", pid)
	info, err := os.Stat(proc)
	if err != nil || pid == os.Getpid() {
		return o, false
	}
	if owner, is := info.Sys().(*syscall.Stat_t); !is || int(owner.Uid) != os.Geteuid() {
		return o, false
	}
	line, err := disk.Stream(proc+"/cmdline", longestStart)
	if err != nil || len(line) == 0 {
		return o, false
	}
	o.pid, o.args = pid, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if len(o.args) < 3 || o.args[1] != "--config-path" || !strings.HasPrefix(filepath.Base(o.args[2]), bootstrapName) {
		return o, false
	}
	cwd, err := os.Readlink(proc + "/cwd")
	if err != nil {
		return o, false
	}
	o.file, err = canonical(o.args[2], cwd)
	return o, err == nil
}

// value returns the value of a flag. Its last occurrence counts, because the flags of hot restart come last.
func (o orphan) value(flag string) string {
	for i := len(o.args) - 2; i > 2; i-- {
		if o.args[i] == flag {
			return o.args[i+1]
		}
	}
	return ""
}

// longestStart bounds the arguments of a process and its variables, in bytes: the kernel starts none with more than 6
// MiB together, but lets a process change them.
const longestStart = 8 << 20

// env returns the orphan's variables.
func (o orphan) env() []string {
	all, _ := disk.Stream(fmt.Sprintf("/proc/%d/environ", o.pid), longestStart) // if it cannot be read, the plan equals no other
	if len(all) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(all), "\x00"), "\x00")
}

// plan returns the plan that the orphan was started with, as far as it can still be read; a part that cannot be read makes it
// unlike any other plan. The error says why its bootstrap cannot be read.
func (o orphan) plan(ctx context.Context, files disk.Files, tail []string) (Plan, error) {
	p := Plan{Binary: o.args[0], Args: o.args[3:], Suffix: filepath.Ext(o.file)}
	if n := len(p.Args) - len(tail); n >= 0 && slices.Equal(p.Args[n:], tail) {
		p.Args = slices.Clone(p.Args[:n])
	}
	p.Env = o.env()
	var err error
	p.Bootstrap, _, err = disk.Read(files, o.file, disk.MaxFile)
	running := fmt.Sprintf("/proc/%d/exe", o.pid) // the file that it runs, even where another one has taken its name
	p.stamp, _ = stampOf(running)
	p.protocol = hotRestartVersion(ctx, running, p.environment())
	return p, err
}

// watch makes a process of an orphan. Its end is noticed, but only the system's first process learns how it ended.
func (o orphan) watch(plan Plan, f *family) (*process, error) {
	fd, err := unix.PidfdOpen(o.pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch envoy %d: %w", o.pid, err)
	}
	if again, ok := readEnvoy(o.pid); !ok || !again.readNumbers() || again.epoch != o.epoch || again.file != o.file {
		unix.Close(fd)
		return nil, fmt.Errorf("envoy %d has ended", o.pid)
	}
	p := &process{
		epoch:  o.epoch,
		pid:    o.pid,
		plan:   plan,
		file:   o.file,
		family: f,
		orphan: true,
		since:  started(o.pid),
		done:   make(chan struct{}),
	}
	f.members++
	go func() {
		defer close(p.done)
		defer unix.Close(fd)
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err != unix.EINTR {
				return
			}
		}
	}()
	return p, nil
}
