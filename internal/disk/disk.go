package disk

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Files are the operations. Each fails as the one of package os that it is named after. They may be called from any goroutine.
type Files interface {
	Stat(path string) (fs.FileInfo, error) // of what a link leads to
	Real(path string) (string, error)      // with its links resolved
	Open(path string) (File, error)        // to read; a pipe does not hold it up
	ReadDir(path string) ([]fs.DirEntry, error)
	Create(dir, pattern string) (File, error) // a new file to write, for its owner alone
	Rename(from, to string) error
	Remove(path string) error
}

// File is one that is open.
type File interface {
	io.ReadWriteCloser
	Name() string
	Stat() (fs.FileInfo, error)
	Chmod(mode fs.FileMode) error
	Sync() error
}

// OS is the file system itself.
var OS Files = system{}

type system struct{}

func (system) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (system) Real(path string) (string, error)           { return filepath.EvalSymlinks(path) }
func (system) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (system) Rename(from, to string) error               { return os.Rename(from, to) }
func (system) Remove(path string) error                   { return os.Remove(path) }
func (system) Open(path string) (File, error) {
	return file(os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}
func (system) Create(dir, pattern string) (File, error) { return file(os.CreateTemp(dir, pattern)) }

// file keeps a nil of one type from becoming something of another.
func file(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}
