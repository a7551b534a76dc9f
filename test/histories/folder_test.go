package histories

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder is the rules on disk: files of documents, and the mesh's own two.
type folder struct {
	dir   string // holds rules/, and in etc/ the mesh configuration and the networks
	files map[string][]document
	mesh  string
	nets  string
	stale map[string]bool // paths below dir that are not yet as they should be
}

func newFolder(dir string) (*folder, error) {
	f := &folder{dir: dir, files: map[string][]document{}, stale: map[string]bool{}}
	return f, errors.Join(os.Mkdir(f.rules(), 0o755), os.MkdirAll(filepath.Dir(f.meshFile()), 0o755))
}

func (f *folder) rules() string { return filepath.Join(f.dir, "rules") }

// Files that a program finds by itself if it runs in the folder. They come and go.
func (f *folder) meshFile() string       { return f.usual("mesh") }
func (f *folder) netsFile() string       { return f.usual("meshNetworks") }
func (f *folder) registriesFile() string { return f.usual("registries") }

func (f *folder) usual(name string) string {
	return filepath.Join(f.dir, "etc", "istio", "config", name)
}

func (f *folder) do(a action) {
	switch {
	case a.Put != nil:
		for name := range f.files {
			if name != a.Put.File {
				f.drop(document{File: name, Key: a.Put.Key})
			}
		}
		f.put(*a.Put)
	case a.Copy != nil:
		f.put(*a.Copy)
	case a.Drop != nil:
		f.drop(*a.Drop)
	case a.Mesh != nil:
		f.mesh = *a.Mesh
		f.stale[f.meshFile()] = true
	case a.Networks != nil:
		f.nets = *a.Networks
		f.stale[f.netsFile()] = true
	}
}

func (f *folder) put(d document) {
	f.stale[f.path(d.File)] = true
	all := f.files[d.File]
	if at := index(all, d.Key); at >= 0 {
		all[at] = d
		return
	}
	f.files[d.File] = append(all, d)
}

func (f *folder) drop(d document) {
	all := f.files[d.File]
	if at := index(all, d.Key); at >= 0 {
		f.files[d.File] = slices.Delete(all, at, at+1)
		f.stale[f.path(d.File)] = true
	}
}

func index(all []document, key string) int {
	return slices.IndexFunc(all, func(d document) bool { return d.Key == key })
}

func (f *folder) path(file string) string { return filepath.Join(f.rules(), file) }

// write makes the files as they should be, each by a rename.
func (f *folder) write(context.Context) error {
	var wrong error
	for path := range f.stale {
		wrong = errors.Join(wrong, f.place(path, f.text(path)))
	}
	clear(f.stale)
	return wrong
}

func (f *folder) text(path string) string {
	switch path {
	case f.meshFile():
		return f.mesh
	case f.netsFile():
		return f.nets
	}
	var texts []string
	for _, d := range f.files[filepath.Base(path)] {
		texts = append(texts, d.Text)
	}
	return strings.Join(texts, "---\n")
}

// place has a file hold a text, or be gone where that is empty.
func (f *folder) place(path, text string) error {
	if text == "" {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}
