package relay

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// listen opens the socket for its owner alone. One that a dead agent left behind is replaced; one that answers belongs to somebody.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("the folder of the relay's socket: %w", err)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("the relay's socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("the relay's socket: %s is there and is no socket; remove it, or name another folder with --configPath", path)
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("the relay's socket: another agent serves %s; stop it, or name another folder with --configPath", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("the relay's socket, left behind by an earlier agent: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("the relay's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("the relay's socket: %w", err)
	}
	return l, nil
}
