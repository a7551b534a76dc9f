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
	Edit(path string) (Random, error)         // to read and write; a pipe does not hold it up
	Make(path string) (Random, error)         // the same of a new file, for its owner alone; one that is there is emptied
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

// Random is a file that is read and written anywhere.
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

// random is file for a file of the other kind.
func random(f *os.File, err error) (Random, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// file keeps a nil of one type from becoming something of another.
func file(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}
