// Package cpu returns how many processors this process may use, by the limits of its control groups (version 2, and version 1).
//
// It must not know what the number is for.
package cpu

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Limit returns how many whole processors the limits allow, rounded up; 0 if there is no limit. root is the machine's file system:
// os.DirFS("/") except in tests. A file that cannot be read sets no limit.
func Limit(root fs.FS) int {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	least := math.Inf(1)
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		least = min(least, limitOf(root, parts[1], parts[2]))
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return max(1, int(math.Ceil(least)))
}

// Files returns the files that Limit reads on this machine: when one changes, the limit may change.
func Files(root fs.FS) []string {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	var out []string
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, dir := range folders(parts[1], parts[2]) {
			for _, name := range []string{"cpu.max", "cpu.cfs_quota_us"} {
				if file := path.Join(dir, name); exists(root, file) {
					out = append(out, "/"+file)
				}
			}
		}
	}
	return out
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// limitOf returns the smallest limit of a group and the groups around it.
func limitOf(root fs.FS, controllers, group string) float64 {
	least := math.Inf(1)
	for _, dir := range folders(controllers, group) {
		least = min(least, version2(root, dir), version1(root, dir))
	}
	return least
}

// folders returns the folders of a group and of the groups around it. Inside a container the group's own path may be hidden; then
// its files are at the top.
func folders(controllers, group string) []string {
	top := "sys/fs/cgroup"
	if controllers != "" {
		if !strings.Contains(","+controllers+",", ",cpu,") {
			return nil
		}
		top = path.Join(top, controllers)
	}
	var out []string
	for g := path.Clean("/" + group); ; g = path.Dir(g) {
		out = append(out, path.Join(top, g))
		if g == "/" {
			return out
		}
	}
}

// version2 reads cpu.max: "200000 100000", or "max 100000".
func version2(root fs.FS, dir string) float64 {
	text, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return math.Inf(1)
	}
	quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return ratio(quota, period)
}

// version1 reads cpu.cfs_quota_us, -1 for no limit, and cpu.cfs_period_us.
func version1(root fs.FS, dir string) float64 {
	quota, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return math.Inf(1)
	}
	period, _ := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 {
		return math.Inf(1)
	}
	return q / p
}
