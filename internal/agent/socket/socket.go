// Package socket opens the unix sockets between Envoy and its agent: for
// their owner alone, and in place of those that a dead agent left behind.
//
// It must not know which protocol they carry.
package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairway/internal/identity/safefile"
)

// longest is Linux's limit: sun_path has 108 bytes, and the last one is zero.
const longest = 107

// Check returns an error for a bad path before anything is opened; what names the socket in errors, as "the socket for secrets".
func Check(what, path string) error {
	if path == "" {
		return fmt.Errorf("%s has no path", what)
	}
	if n := len(path); n > longest {
		return fmt.Errorf("%s, %s: %d bytes long, and the kernel takes %d; name a shorter path, or one relative to the working folder",
			what, path, n, longest)
	}
	return nil
}

// Listen opens the socket. A socket that a dead agent left behind is replaced; one that answers belongs to another program, and is
// an error. A missing folder is made for its owner alone. Connections of users other than this one and root are closed unread,
// whatever the folder allows.
func Listen(what, path string) (net.Listener, error) {
	if err := safefile.Folder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("the folder of %s: %w", what, err)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s: %s is there and is not a socket; remove it, or name another folder with --configPath", what, path)
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("%s: another agent serves %s; stop it, or name another folder with --configPath", what, path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("%s, left behind by an earlier agent: %w", what, err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return owned{l.(*net.UnixListener)}, nil
}

// owned is a listener that accepts only its own user and root. The mode of the socket has the same effect; this also holds in the
// moment before that is set.
type owned struct{ *net.UnixListener }

// Accept implements net.Listener.
func (l owned) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := user(conn); err == nil && (uid == 0 || uid == os.Geteuid()) {
			return conn, nil
		}
		conn.Close()
	}
}

// user returns the user that connected (SO_PEERCRED).
func user(conn syscall.Conn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return int(who.Uid), nil
}
