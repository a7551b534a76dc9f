// Package archive writes archives: tar with gzip, and zip. Equal files make equal bytes. Start at Files.
package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Files are files of this machine, by their names in an archive.
type Files map[string]string

// Folder adds all files of a folder below a name.
func (f Files) Folder(name, dir string) error {
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err == nil {
			f[path.Join(name, filepath.ToSlash(rel))] = file
		}
		return err
	})
}

// mode returns what everybody may do with a file: read it, and run it if its owner may.
func mode(file string) (fs.FileInfo, int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, 0, err
	}
	if info.Mode()&0o100 != 0 {
		return info, 0o755, nil
	}
	return info, 0o644, nil
}

// Tar writes the files to a tar file with gzip.
func (f Files) Tar(to string, moment time.Time) error {
	return create(to, func(w io.Writer) error {
		compressed := gzip.NewWriter(w)
		archive := tar.NewWriter(compressed)
		for _, name := range slices.Sorted(maps.Keys(f)) {
			info, mode, err := mode(f[name])
			if err != nil {
				return err
			}
			h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size(), ModTime: moment, Format: tar.FormatPAX}
			if err := archive.WriteHeader(&h); err != nil {
				return err
			}
			if err := copied(archive, f[name]); err != nil {
				return err
			}
		}
		if err := archive.Close(); err != nil {
			return err
		}
		return compressed.Close()
	})
}

// Zip writes the files to a zip file.
func (f Files) Zip(to string, moment time.Time) error {
	return create(to, func(w io.Writer) error {
		archive := zip.NewWriter(w)
		for _, name := range slices.Sorted(maps.Keys(f)) {
			_, mode, err := mode(f[name])
			if err != nil {
				return err
			}
			h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: moment.UTC()}
			h.SetMode(fs.FileMode(mode))
			entry, err := archive.CreateHeader(h)
			if err != nil {
				return err
			}
			if err := copied(entry, f[name]); err != nil {
				return err
			}
		}
		return archive.Close()
	})
}

func copied(to io.Writer, file string) error {
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(to, r)
	return err
}

func create(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
