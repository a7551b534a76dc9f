package epoch

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fairway/internal/disk"
	"fairway/internal/printable"
)

// isOurs reports whether a file belongs to this agent's user.
func isOurs(info fs.FileInfo) bool {
	owner, ok := ownerOf(info)
	return ok && int(owner) == os.Geteuid()
}

func ownerOf(info fs.FileInfo) (uid uint32, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, true
}

// isForeign reports whether a path exists that belongs to another user, or is not a regular file.
func isForeign(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && (!isOurs(info) || !info.Mode().IsRegular())
}

// describeOwner returns which user owns a file that is in the way.
func describeOwner(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Sprintf("%s is somebody else's", path)
	}
	uid, _ := ownerOf(info)
	name := fmt.Sprintf("user %d", uid)
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		name += " (" + printable.Text(u.Username, printable.Short) + ")"
	}
	kind := ""
	if !info.Mode().IsRegular() {
		kind = fmt.Sprintf(", and no file (%s)", info.Mode().Type())
	}
	return fmt.Sprintf("%s belongs to %s%s", path, name, kind)
}

// longestName bounds the name of a process, in bytes: the kernel keeps 15.
const longestName = 256

// locker returns which process holds the lock of a file, as far as the kernel shows it.
func locker(f *os.File) string {
	unknown := "another agent"
	var stat unix.Stat_t
	locks, err := os.Open("/proc/locks")
	if err != nil || unix.Fstat(int(f.Fd()), &stat) != nil {
		return unknown
	}
	defer locks.Close()
	at := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		words := strings.Fields(lines.Text()) // 1: FLOCK ADVISORY WRITE pid device:inode …
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != at {
			continue
		}
		name, err := disk.Stream("/proc/"+words[4]+"/comm", longestName)
		if errors.Is(err, fs.ErrNotExist) {
			return unknown
		}
		return fmt.Sprintf("process %s (%s)", words[4], printable.Text(strings.TrimSpace(string(name)), printable.Short))
	}
	return unknown
}
