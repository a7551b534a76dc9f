package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"fairway/internal/agent/token/shown"
)

// Token is 256 random bits in hexadecimal. The zero Token admits no caller.
type Token string

// Header is the HTTP header, and the key of gRPC metadata, that a token is shown in.
const Header = shown.Header

// File is a token's name in the agent's folder; its owner alone may read it.
const File = shown.File

// length is the length of a Token, in bytes of text.
const length = 2 * sha256.Size

// Folder is where an agent's token is kept while it runs. It stays there if the agent is killed: the Envoy that is left knows it,
// and the next agent takes it over.
type Folder struct {
	path string
	made bool // the folder itself was
}

// Open reads the token of an earlier agent, or makes one. A missing folder is made, for its owner alone.
func Open(dir string) (Token, Folder, error) {
	_, err := os.Lstat(dir)
	f := Folder{path: dir, made: errors.Is(err, fs.ErrNotExist)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", f, fmt.Errorf("make the agent's folder: %w; name a writable one with --configPath", err)
	}
	t, err := read(filepath.Join(dir, File), false)
	if err == nil {
		return t, f, nil
	}
	if t, err = fresh(); err == nil {
		err = write(dir, t)
	}
	if err != nil {
		return "", f, fmt.Errorf("keep the agent's token: %w; name a writable folder with --configPath", err)
	}
	return t, f, nil
}

// Close removes the token, and the folder if Open made it and it is empty. An agent calls it only after all its Envoys have ended.
func (f Folder) Close() {
	_ = os.Remove(filepath.Join(f.path, File))
	if f.made {
		_ = os.Remove(f.path)
	}
}

// Read returns the token in a file. It is an error if the file is not a regular one, belongs to another user, may be read or written
// by others, or holds no token: a user that could write it could have chosen it.
//
// Root may read every user's.
func Read(path string) (Token, error) { return read(path, os.Geteuid() == 0) }

func read(path string, anybodys bool) (Token, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ok || int(owner.Uid) != os.Geteuid() && !anybodys {
		return "", fmt.Errorf("%s: want a file that its owner alone may read", path)
	}
	var text [length + 2]byte
	n, _ := file.Read(text[:]) // of a file this short one call gives all
	return parse(text[:n])
}

func parse(text []byte) (Token, error) {
	t := strings.TrimSuffix(string(text), "\n")
	if raw, err := hex.DecodeString(t); err != nil || len(raw) != sha256.Size || strings.ToLower(t) != t {
		return "", errors.New("it holds no token: want 64 hexadecimal digits")
	}
	return Token(t), nil
}

func fresh() (Token, error) {
	var raw [sha256.Size]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	return Token(hex.EncodeToString(raw[:])), nil
}

// write puts the token into its file, whole or not at all.
func write(dir string, t Token) error {
	next, err := os.CreateTemp(dir, ".token-") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // fails once renamed
	_, err = next.WriteString(string(t) + "\n")
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(next.Name(), filepath.Join(dir, File))
}

// Admits reports whether a caller shows the token. It takes as long for a wrong one as for the right one.
func (t Token) Admits(shown string) bool {
	return t != "" && subtle.ConstantTimeCompare([]byte(t), []byte(shown)) == 1
}

// Derive returns another secret, for one purpose only: 128 bits in hexadecimal. The token cannot be found from it.
func (t Token) Derive(purpose string) string {
	mac := hmac.New(sha256.New, []byte(t))
	mac.Write([]byte(purpose))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
