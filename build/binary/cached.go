package binary

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Cached returns the folder of the user's cache, fairway/NAME-KEY, for a product of some files of a folder. The key is a hash of these
// files and of how the product is made, so a fresh clone on the same machine makes nothing again. The folder may not be there yet.
func Cached(name, how, folder string, files ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for caches: %w", err)
	}
	sum := sha256.New()
	if how != "" {
		fmt.Fprintln(sum, how)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return "", fmt.Errorf("read what %s is made of: %w", name, err)
		}
		fmt.Fprintf(sum, "%s %d\n%s\n", file, len(text), text)
	}
	return filepath.Join(cache, "fairway", name+"-"+hex.EncodeToString(sum.Sum(nil))[:20]), nil
}
