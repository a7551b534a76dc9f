// Package faulty is a file system that fails when a test says so. Only tests import it.
package faulty

import (
	"io/fs"
	"syscall"

	"fairway/internal/disk"
)

// Files fail when Fail returns an error for an operation on a path; nil lets it through. The operations are "stat", "real", "open",
// "readdir", "create", "edit", "make", "rename", "remove", and on open files "read", "write", "fstat", "chmod", "sync", "truncate". Reads
// return a few bytes at a time, and a write that fails has written half.
type Files struct {
	disk.Files
	Fail func(operation, path string) error
}

// Errors are errors that file systems return to correct programs.
var Errors = []error{syscall.EACCES, syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.ENOSPC, syscall.ESTALE}

func (f Files) fail(operation, path string) error {
	if err := f.Fail(operation, path); err != nil {
		return &fs.PathError{Op: operation, Path: path, Err: err}
	}
	return nil
}

// Stat implements disk.Files.
func (f Files) Stat(path string) (fs.FileInfo, error) {
	if err := f.fail("stat", path); err != nil {
		return nil, err
	}
	return f.Files.Stat(path)
}

// Real implements disk.Files.
func (f Files) Real(path string) (string, error) {
	if err := f.fail("real", path); err != nil {
		return "", err
	}
	return f.Files.Real(path)
}

// Open implements disk.Files.
func (f Files) Open(path string) (disk.File, error) {
	return f.open("open", path, func() (disk.File, error) { return f.Files.Open(path) })
}

// Create implements disk.Files.
func (f Files) Create(dir, pattern string) (disk.File, error) {
	return f.open("create", dir, func() (disk.File, error) { return f.Files.Create(dir, pattern) })
}

func (f Files) open(operation, path string, do func() (disk.File, error)) (disk.File, error) {
	if err := f.fail(operation, path); err != nil {
		return nil, err
	}
	inner, err := do()
	if err != nil {
		return nil, err
	}
	return file{inner, f}, nil
}

// Edit implements disk.Files.
func (f Files) Edit(path string) (disk.Random, error) {
	return f.random("edit", path, f.Files.Edit)
}

// Make implements disk.Files.
func (f Files) Make(path string) (disk.Random, error) {
	return f.random("make", path, f.Files.Make)
}

func (f Files) random(operation, path string, do func(string) (disk.Random, error)) (disk.Random, error) {
	if err := f.fail(operation, path); err != nil {
		return nil, err
	}
	inner, err := do(path)
	if err != nil {
		return nil, err
	}
	return random{file{inner, f}, inner}, nil
}

// ReadDir implements disk.Files.
func (f Files) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := f.fail("readdir", path); err != nil {
		return nil, err
	}
	return f.Files.ReadDir(path)
}

// Rename implements disk.Files.
func (f Files) Rename(from, to string) error {
	if err := f.fail("rename", to); err != nil {
		return err
	}
	return f.Files.Rename(from, to)
}

// Remove implements disk.Files.
func (f Files) Remove(path string) error {
	if err := f.fail("remove", path); err != nil {
		return err
	}
	return f.Files.Remove(path)
}

type file struct {
	disk.File
	of Files
}

func (f file) Read(p []byte) (int, error) {
	if err := f.of.fail("read", f.Name()); err != nil {
		return 0, err
	}
	return f.File.Read(p[:min(len(p), 7)])
}

func (f file) Write(p []byte) (int, error) {
	if err := f.of.fail("write", f.Name()); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f file) Stat() (fs.FileInfo, error) {
	if err := f.of.fail("fstat", f.Name()); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

func (f file) Chmod(mode fs.FileMode) error {
	if err := f.of.fail("chmod", f.Name()); err != nil {
		return err
	}
	return f.File.Chmod(mode)
}

func (f file) Sync() error {
	if err := f.of.fail("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

type random struct {
	file
	inner disk.Random
}

func (r random) ReadAt(p []byte, at int64) (int, error) {
	if err := r.of.fail("read", r.Name()); err != nil {
		return 0, err
	}
	return r.inner.ReadAt(p, at)
}

func (r random) WriteAt(p []byte, at int64) (int, error) {
	if err := r.of.fail("write", r.Name()); err != nil {
		n, _ := r.inner.WriteAt(p[:len(p)/2], at)
		return n, err
	}
	return r.inner.WriteAt(p, at)
}

func (r random) Truncate(size int64) error {
	if err := r.of.fail("truncate", r.Name()); err != nil {
		return err
	}
	return r.inner.Truncate(size)
}
