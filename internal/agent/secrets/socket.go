package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// longestSocket is Linux's: sun_path has 108 bytes, the last of which is zero.
const longestSocket = 107

func checkSocket(path string) error {
	if path == "" {
		return errors.New("the socket for secrets has no path")
	}
	if n := len(path); n > longestSocket {
		return fmt.Errorf("the socket for secrets, %s: %d bytes long, and the kernel takes %d; name a shorter path, or one relative to the working folder", path, n, longestSocket)
	}
	return nil
}

// listen opens the socket for its owner alone. One that a dead agent left behind is removed; one that answers belongs to somebody.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("the folder of the socket for secrets: %w", err)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("the socket for secrets: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("the socket for secrets: %s is there and is no socket; remove it or name another path", path)
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("the socket for secrets: another agent serves %s; stop it or name another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("the socket for secrets, left behind by an earlier agent: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("the socket for secrets: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("the socket for secrets: %w", err)
	}
	return l, nil
}
