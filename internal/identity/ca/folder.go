package ca

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"fairway/internal/disk"
)

// GuardState makes a State folder accessible only to this user: permissions that are too wide are removed, with a warning. If the folder, a
// symbolic link to it, or one of the authority's files in it belongs to another user, that is an error that says what to do. A missing
// folder is not an error.
func GuardState(dir string, log *slog.Logger) error {
	if dir == "" {
		return nil
	}
	dir = filepath.Clean(dir)
	link, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the folder that keeps the root: %w; name one that can be written", err)
	}
	if err := ours(dir, link); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("the folder that keeps the root: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the state folder %s is not a folder: name another with --caStateDir", dir)
	}
	if err := narrow(dir, info, 0o700, log); err != nil {
		return err
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the folder that keeps the root: %w", err)
	}
	for _, f := range all {
		if err := guardEntry(dir, f, log); err != nil {
			return err
		}
	}
	return nil
}

func guardEntry(dir string, f fs.DirEntry, log *slog.Logger) error {
	path := filepath.Join(dir, f.Name())
	allowed := os.FileMode(0o600)
	switch {
	case f.Name() == rootsFile:
		allowed = 0o644
	case f.Name() == issuedFolder:
		allowed = 0o700
	case !strings.HasSuffix(f.Name(), ".json") && f.Name() != ".lock":
		return nil // not of the authority's
	}
	info, err := f.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the folder that keeps the root: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 || !info.Mode().IsRegular() && f.Name() != issuedFolder {
		return fmt.Errorf("%s is not a file of its own (%s): put the file itself there", path, info.Mode())
	}
	return narrow(path, info, allowed, log)
}

// ours reports an error unless a file belongs to this user or to root, because no file can be protected from root.
func ours(path string, info os.FileInfo) error {
	owner, ok := disk.Owner(info)
	if ok && owner != 0 && owner != os.Geteuid() && os.Geteuid() != 0 {
		return fmt.Errorf(
			"%s belongs to user %d, who can replace the authority's key, and this is user %d: chown it, or name another "+
				"folder with --caStateDir",
			path,
			owner,
			os.Geteuid(),
		)
	}
	return nil
}

// narrow removes permissions that are not allowed.
func narrow(path string, info os.FileInfo, allowed os.FileMode, log *slog.Logger) error {
	if err := ours(path, info); err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if mode&^allowed == 0 {
		return nil
	}
	if err := os.Chmod(path, mode&allowed); err != nil {
		return fmt.Errorf("%s may be read or written by others (mode %#o), and that cannot be mended: %w; chmod it to %#o", path,
			mode, err, allowed)
	}
	log.Warn(
		"others could read or write what the authority keeps; they cannot any more: if they may have, replace the root "+
			"(`pilot-discovery ca rotate`)",
		"path",
		path,
		"was",
		fmt.Sprintf("%#o", mode),
	)
	return nil
}
