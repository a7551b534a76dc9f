package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"fairway/internal/config"
)

// FileName is the name of a snapshot in an archive of pilotctl bug-report, below a folder for each control plane.
const FileName = "snapshot.jsonl.gz"

// Open reads a file: a snapshot, or an archive of pilotctl bug-report, of which it joins the snapshots (Merge).
func Open(name string, rules *config.Decoder) (*Snapshot, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	whole := bufio.NewReaderSize(f, 64<<10)
	start, err := whole.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	out, err := read(whole, start, rules)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return out, nil
}

// read reads a snapshot, or an archive with snapshots; start is its beginning.
func read(whole io.Reader, start []byte, rules *config.Decoder) (*Snapshot, error) {
	if unpacked, err := gzip.NewReader(bytes.NewReader(start)); err == nil {
		if first, err := bufio.NewReader(unpacked).Peek(1); err == nil && first[0] != '{' {
			return unarchive(whole, rules)
		}
	}
	return Decode(whole, rules)
}

// mostPlanes is how many snapshots of an archive are read.
const mostPlanes = 64

func unarchive(whole io.Reader, rules *config.Decoder) (*Snapshot, error) {
	unpacked, err := gzip.NewReader(whole)
	if err != nil {
		return nil, err
	}
	var all []*Snapshot
	for files := tar.NewReader(io.LimitReader(unpacked, mostPlanes*MaxBytes)); ; {
		h, err := files.Next()
		switch {
		case errors.Is(err, io.EOF) && len(all) == 0:
			return nil, fmt.Errorf("the archive has no %s", FileName)
		case errors.Is(err, io.EOF):
			return Merge(all...), nil
		case err != nil:
			return nil, fmt.Errorf("this is neither a snapshot nor an archive of pilotctl bug-report: %w", err)
		case path.Base(h.Name) != FileName || len(all) == mostPlanes:
			continue
		}
		s, err := Decode(files, rules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		all = append(all, s)
	}
}
