// Package layer writes the layers of images: compressed tar files. Equal files make equal bytes.
//
// Files are sorted by name, have one time and name their owner by number. Parents of files are made by themselves. The package knows
// nothing of images: start at Layer.
package layer

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// moment is the time of every file.
var moment = time.Unix(0, 0)

// Owner is who owns a file: a user and its group, of the same number.
type Owner int

// The owners of files in images.
const (
	Root  Owner = 0
	Proxy Owner = 1337 // the user that the programs run as
)

// Layer is a set of files.
type Layer struct{ entries map[string]entry }

type entry struct {
	header tar.Header
	open   func() (io.ReadCloser, error) // nil: it has no content
}

// New returns an empty layer.
func New() *Layer { return &Layer{map[string]entry{}} }

// Dir adds a folder, and its parents as root's.
func (l *Layer) Dir(name string, mode int64, owner Owner) {
	l.put(name, tar.Header{Typeflag: tar.TypeDir, Mode: mode, Uid: int(owner), Gid: int(owner)}, nil)
}

// Text adds a file that anyone may read.
func (l *Layer) Text(name, text string) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	l.put(name, tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}, open)
}

// Program adds a file of this machine that anyone may run.
func (l *Layer) Program(name, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", file)
	}
	open := func() (io.ReadCloser, error) { return os.Open(file) }
	l.put(name, tar.Header{Typeflag: tar.TypeReg, Mode: 0o755, Size: info.Size()}, open)
	return nil
}

// Copy adds a file, folder or symbolic link of another tar file.
func (l *Layer) Copy(h *tar.Header, content []byte) error {
	out := tar.Header{Typeflag: h.Typeflag, Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid, Linkname: h.Linkname}
	switch h.Typeflag {
	case tar.TypeReg:
		out.Size = int64(len(content))
		l.put(h.Name, out, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(content))), nil })
	case tar.TypeDir, tar.TypeSymlink:
		l.put(h.Name, out, nil)
	default:
		return fmt.Errorf("%s: a file of type %q; want files, folders and symbolic links", h.Name, h.Typeflag)
	}
	return nil
}

func (l *Layer) put(name string, h tar.Header, open func() (io.ReadCloser, error)) {
	name = clean(name)
	if name == "" {
		return
	}
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if _, has := l.entries[parent]; !has {
			l.entries[parent] = entry{tar.Header{Typeflag: tar.TypeDir, Mode: 0o755, Name: parent + "/", ModTime: moment}, nil}
		}
	}
	h.Name, h.ModTime = name, moment
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	l.entries[name] = entry{h, open}
}

// clean returns a path below the root, without a slash in front; empty: the root itself.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// Write writes the layer, compressed, to a file.
func (l *Layer) Write(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = l.to(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func (l *Layer) to(w io.Writer) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(l.entries)) {
		if err := l.entries[name].to(archive); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func (e entry) to(archive *tar.Writer) error {
	if err := archive.WriteHeader(&e.header); err != nil || e.open == nil {
		return err
	}
	r, err := e.open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(archive, r)
	return err
}
