package disk

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Files are operations of the file system. Each fails like the function of package os with its name. Any goroutine may call them.
type Files interface {
	Stat(path string) (fs.FileInfo, error) // follows links
	Real(path string) (string, error)      // with its links resolved
	Open(path string) (File, error)        // to read; does not wait for a pipe
	ReadDir(path string) ([]fs.DirEntry, error)
	Create(dir, pattern string) (File, error) // a new file to write, readable only by its owner
	Edit(path string) (Random, error)         // to read and write; does not wait for a pipe
	Make(path string) (Random, error)         // the same for a new file, readable only by its owner; an existing one is emptied
	Rename(from, to string) error
	Remove(path string) error
}

// File is an open file.
type File interface {
	io.ReadWriteCloser
	Name() string
	Stat() (fs.FileInfo, error)
	Chmod(mode fs.FileMode) error
	Sync() error
}

// Random is a file with random access.
type Random interface {
	File
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
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
func (system) Edit(path string) (Random, error) {
	return random(os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0))
}
func (system) Make(path string) (Random, error) {
	return random(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o600))
}
func (system) Create(dir, pattern string) (File, error) { return file(os.CreateTemp(dir, pattern)) }

// random is file for a Random.
func random(f *os.File, err error) (Random, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// file returns a nil interface, not an interface with a nil pointer, if there is an error.
func file(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}
