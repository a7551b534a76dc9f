package safefile

import "fairway/internal/disk"

// Read returns the content of a regular file of at most limit bytes. A larger file, or another kind (a pipe, a device), is an error. It
// never blocks.
func Read(path string, limit int64) ([]byte, error) {
	content, _, err := disk.Read(disk.OS, path, limit)
	return content, err
}
