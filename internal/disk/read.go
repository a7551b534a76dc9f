package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// MaxFile is the most that a configuration file may hold, in bytes.
const MaxFile = 64 << 20

// Errors of Read. The caller has to say what would be right.
var (
	ErrNotRegular = errors.New("it is not a regular file")
	ErrTooLarge   = errors.New("it is too large")
	ErrChanging   = errors.New("it is being written")
)

// Read reads a regular file of at most limit bytes that does not change meanwhile. It waits for no pipe, opens no device and no socket, and
// reads nothing of a file that is too large. info describes the file at the time of the read.
func Read(files Files, path string, limit int64) (content []byte, info fs.FileInfo, err error) {
	if info, err := files.Stat(path); err != nil {
		return nil, nil, err
	} else if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	}
	f, err := files.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	before, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case !before.Mode().IsRegular(): // another file has taken its place
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	case before.Size() > limit:
		return nil, nil, &fs.PathError{
			Op:   "read",
			Path: path,
			Err:  fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, before.Size(), limit),
		}
	}
	content = make([]byte, before.Size())
	n, err := io.ReadFull(f, content)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if n < len(content) || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: ErrChanging}
	}
	return content, before, nil
}

// Stream reads to the end of a file that cannot say its size: a file of the kernel's, or a pipe that a user names on a command line. It
// waits for the writer. More than limit bytes are ErrTooLarge.
func Stream(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)}
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

// Gone reports whether an error means that the name does not exist, and not only that it cannot be read.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// ID identifies a file or folder, whatever its name.
type ID struct{ Device, Inode uint64 }
