package extensions

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"

	"fairway/internal/identity/safefile"
	"fairway/internal/printable"
	"fairway/internal/web"
)

// Bounds of a fetch.
const (
	mostBytes    = 64 << 20 // of a module, and of what it is in
	mostUnpacked = 128 << 20
	mostFiles    = 1024 // of an archive
	fetchWithin  = time.Minute
)

// newClient makes the client of all fetches.
func newClient() *http.Client {
	t := web.Transport(web.LinkLocal)
	t.DisableCompression = true // the unpacked bytes are counted
	t.ResponseHeaderTimeout = 30 * time.Second
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if err := web.FewRedirects(r, via); err != nil {
			return err
		}
		return secure(r.URL, via[0].URL)
	}}
}

// secure refuses a redirect from https to http.
func secure(to, from *url.URL) error {
	if to.Scheme != "https" && (to.Scheme != "http" || from.Scheme != "http") {
		return fmt.Errorf("it sends from %s to %s", from.Scheme, to.Scheme)
	}
	return nil
}

// fetch gets a module from a file, a server or a registry. sum is the SHA-256 it must have, in hex; empty: any.
func (s *Set) fetch(ctx context.Context, o order) (module []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("its address cannot be read")
	}
	switch u.Scheme {
	case "file":
		return s.local(u.Path, o.SHA256)
	case "http", "https":
		module, err = s.download(ctx, u)
	case "oci":
		return s.pull(ctx, strings.TrimPrefix(o.URL, "oci://"), o.SHA256, o.Secret)
	default:
		err = fmt.Errorf("%q is not a way to fetch a module", u.Scheme)
	}
	if err != nil {
		return nil, err
	}
	return module, check(module, o.SHA256)
}

// errSum is how a module fails that another content was expected of.
var errSum = errors.New("its SHA-256 is not the one in sha256")

// check returns an error if module is not a module, or its SHA-256 is not sum, in hex; empty: any.
func check(module []byte, sum string) error {
	if is := sha256.Sum256(module); sum != "" && hex.EncodeToString(is[:]) != sum {
		return errSum
	}
	return isModule(module)
}

// withheld is an error that shows the author of an extension only its words. The log has the cause.
type withheld struct {
	words string
	cause error
}

func (w *withheld) Error() string { return w.words + ": " + w.cause.Error() }
func (w *withheld) Unwrap() error { return w.cause }

// reasonFor returns the text of an error for the author of an extension.
func reasonFor(err error) string {
	var w *withheld
	var network *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &w):
		return w.words
	case errors.As(err, &network), errors.As(err, &name): // a closed port, a filtered one and a name that is none look alike
		return "the server cannot be reached; the agent's log says why"
	}
	return err.Error()
}

// local reads a module of this machine. Its author may be a stranger to the machine, and gets the same error whether there is no
// such file, it may not be read, or it holds something else.
func (s *Set) local(path, sum string) ([]byte, error) {
	var module []byte
	path, err := s.allowed(path)
	if err == nil {
		module, err = safefile.Read(path, mostBytes)
	}
	if err == nil {
		err = check(module, sum)
	}
	if err != nil {
		return nil, &withheld{"the proxy's machine has no such module in this file; the agent's log says why", err}
	}
	return module, nil
}

// allowed returns the real path of a file, if it is below a folder that the operator of the machine allows.
func (s *Set) allowed(path string) (string, error) {
	if len(s.o.Folders) == 0 {
		return path, nil
	}
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	for _, folder := range s.o.Folders {
		folder, err := filepath.EvalSymlinks(folder)
		if err != nil {
			continue // it may come later; until then no file is below it
		}
		if at, err := filepath.Rel(folder, file); err == nil && filepath.IsLocal(at) {
			return file, nil
		}
	}
	at := printable.Text(path, printable.Short)
	return "", fmt.Errorf("%s is below no folder of --wasmFolders (%s)", at, strings.Join(s.o.Folders, ", "))
}

// download gets a module over HTTP, by itself or in an archive.
func (s *Set) download(ctx context.Context, u *url.URL) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "identity")
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %d", answer.StatusCode)
	}
	if answer.ContentLength > mostBytes {
		return nil, errTooLarge
	}
	return unpack(&bounded{answer.Body, mostBytes})
}

// withoutURL removes the URL, which may hold secrets, from an error.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

var errTooLarge = fmt.Errorf("it has more than the %d MiB that a module may have", mostBytes>>20)

// bounded reads up to a number of bytes, and fails if there are more.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// unpack reads a module, either plain or in a tar archive; each may be compressed by gzip. The names in an archive only choose the
// module, and are never used as paths of this machine.
func unpack(from io.Reader) ([]byte, error) {
	r := bufio.NewReaderSize(from, 1024)
	if head, _ := r.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = bufio.NewReaderSize(&bounded{z, mostUnpacked}, 1024)
	}
	if head, _ := r.Peek(262); len(head) < 262 || string(head[257:262]) != "ustar" {
		return io.ReadAll(&bounded{r, mostBytes})
	}
	archive := tar.NewReader(r)
	for range mostFiles {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the archive holds no .wasm file")
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg && path.Ext(h.Name) == ".wasm" {
			return io.ReadAll(&bounded{archive, mostBytes})
		}
	}
	return nil, fmt.Errorf("the archive has more than %d files", mostFiles)
}

// isModule returns an error if b is not a module (WebAssembly, "Binary Format: Modules").
func isModule(b []byte) error {
	if !bytes.HasPrefix(b, []byte("\x00asm\x01\x00\x00\x00")) {
		return errors.New("it is not a WebAssembly module")
	}
	return nil
}
