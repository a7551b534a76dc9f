package epoch

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The Envoys of a family speak to each other on datagram sockets: a program that may send to them can take over the listeners, or
// end the Envoy. By default they are abstract sockets, which have no permissions. So they get files, in a folder that only this
// user may enter.
const (
	socketFlag = "--socket-path"
	socketMode = "600"
	socketDir  = "hot-restart" // in the agent's folder
	socketName = "envoy"
)

// longestSocket bounds the part of their names that Envoy is given: sun_path has 108 bytes, the last one zero, and Envoy appends
// "_udp_parent_" and up to ten digits.
const longestSocket = 107 - len("_udp_parent_") - 10

// sockets returns the beginning of the names of a base id's sockets. If they cannot be in the agent's folder (its path is too long,
// or other users could rename it), they are beside the shared memory, in a folder that belongs to the base id.
func (b bases) sockets(id uint32) (string, error) {
	if own, err := canonical(b.own, ""); err == nil && private(own) {
		at := filepath.Join(own, socketDir, socketName)
		if fits(at) && makePrivate(filepath.Dir(at)) == nil {
			removeDead(filepath.Dir(at))
			return at, nil
		}
	}
	at := filepath.Join(b.memory, fmt.Sprintf("fairway_hot_restart_%d", id), socketName)
	if !fits(at) {
		return "", fmt.Errorf("no place for hot restart's sockets: %s is too long a path", at)
	}
	err := makePrivate(filepath.Dir(at))
	if errors.Is(err, errNotOurs) {
		return "", &baseIDInUseError{id, describeOwner(filepath.Dir(at)), true}
	}
	return at, err
}

// fits reports whether Envoy can make names of a path: it reads braces in it as places to fill in.
func fits(path string) bool { return len(path) <= longestSocket && !strings.ContainsAny(path, "{}") }

var errNotOurs = errors.New("it belongs to another user, or is not a folder")

// makePrivate makes a folder for this user alone, or makes an existing one private.
func makePrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || !isOurs(info):
		return errNotOurs
	case info.Mode().Perm() != 0o700:
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// private reports whether only this user and root can replace a folder by another one. The path has no links.
func private(dir string) bool {
	for {
		info, err := os.Lstat(dir)
		if err != nil {
			return false
		}
		owner, ok := ownerOf(info)
		if !ok || owner != 0 && int(owner) != os.Geteuid() {
			return false
		}
		if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return false
		}
		above := filepath.Dir(dir)
		if above == dir {
			return true
		}
		dir = above
	}
}

// removeSockets removes the family's sockets, and their folder if it is empty then.
func (f *family) removeSockets() {
	if f.sockets == "" {
		return
	}
	const roles, epochs = "parent child udp_parent udp_child", 3 // Envoy counts epochs by the remainder
	for role := range strings.FieldsSeq(roles) {
		for epoch := range uint64(epochs) {
			os.Remove(fmt.Sprintf("%s_%s_%d", f.sockets, role, uint64(f.baseID)*idsPerBase+epoch))
		}
	}
	os.Remove(filepath.Dir(f.sockets))
}

// removeDead removes the sockets of Envoys that were killed together with their agent.
func removeDead(dir string) {
	entries, _ := os.ReadDir(dir) // Envoy reports problems of the folder
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type() != fs.ModeSocket {
			continue
		}
		conn, err := net.Dial("unixgram", path)
		if err == nil {
			conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(path)
		}
	}
}
