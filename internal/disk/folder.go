package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Listable says why a folder that a user named cannot be read; nil: it can.
func Listable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("%w; name an existing folder that may be read", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if _, err := f.ReadDir(1); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w; name an existing folder that may be read", err)
	}
	return nil
}
