package safefile

import "fairway/internal/disk"

// Read gives the content of a regular file of at most limit bytes; what is none (a pipe, a device), or is larger, is an
// error. It waits for nobody.
func Read(path string, limit int64) ([]byte, error) {
	content, _, err := disk.Read(disk.OS, path, limit)
	return content, err
}
