package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Named returns an error if a file or folder that a user named does not exist. Other reasons why it cannot be read are reported when it is
// read. An empty path names nothing.
func Named(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; create it, or leave the setting out", path)
	}
	return nil
}
