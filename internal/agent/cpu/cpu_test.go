package cpu

import (
	"os"
	"testing"
	"testing/fstest"
)

func TestLimit(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int
	}{
		"nothing there":      {fstest.MapFS{}, 0},
		"v2, in a container": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/cpu.max": file("150000 100000\n")}, 2},
		"v2, no limit":       {fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/cpu.max": file("max 100000\n")}, 0},
		"v2, the outer is less": {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/cpu.max": file("400000 100000\n"),
			"sys/fs/cgroup/a/cpu.max": file("300000 100000\n")}, 3},
		"v2, less than one": {fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/cpu.max": file("5000 100000\n")}, 1},
		"v1": {fstest.MapFS{"proc/self/cgroup": file("4:cpu,cpuacct:/p\n3:memory:/p\n"),
			"sys/fs/cgroup/cpu,cpuacct/p/cpu.cfs_quota_us":  file("250000\n"),
			"sys/fs/cgroup/cpu,cpuacct/p/cpu.cfs_period_us": file("100000\n")}, 3},
		"v1, hidden path": {fstest.MapFS{"proc/self/cgroup": file("1:cpu:/kubepods/x\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  file("400000"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000")}, 4},
		"v1, no limit": {fstest.MapFS{"proc/self/cgroup": file("1:cpu:/\n"), "sys/fs/cgroup/cpu/cpu.cfs_quota_us": file("-1")}, 0},
		"cpuset is no cpu": {fstest.MapFS{"proc/self/cgroup": file("1:cpuset:/\n"), "sys/fs/cgroup/cpuset/cpu.cfs_quota_us": file("100000"),
			"sys/fs/cgroup/cpuset/cpu.cfs_period_us": file("100000")}, 0},
	} {
		if got := Limit(c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	fsys := fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/cpu.max": file("1 1")}
	if got := Files(fsys); len(got) != 1 || got[0] != "/sys/fs/cgroup/a/cpu.max" {
		t.Errorf("files %v", got)
	}
	if Limit(os.DirFS("/")) < 0 {
		t.Error("less than nothing")
	}
}
