package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"fairway/internal/identity"
	"fairway/internal/identity/safefile"
)

// resume puts in force the certificate that an earlier agent kept in OutputDir, so that a workload that starts while the authority
// is away has its identity all the same. It must be for this workload, and still be valid; a new one is requested at once as ever.
// If there is none, that is not an error.
func (r *renewer) resume() {
	s, dir := r.secrets, r.authority.OutputDir
	if dir == "" {
		return
	}
	p, t, err := readKept(dir)
	if err == nil {
		err = s.expected(p)
	}
	if err == nil {
		err = s.set(p, t, s.opts.Now())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.opts.Log.Warn("the certificate that was kept (OUTPUT_CERTS) is not served", "folder", dir, "error", err)
	default:
		s.mu.Lock()
		s.kept = p
		s.mu.Unlock()
		s.opts.Log.Info("the certificate that was kept is served until the authority gives another one", "folder", dir)
	}
}

// readKept reads the files that write has written.
func readKept(dir string) (*pair, *trusted, error) {
	text := map[string][]byte{}
	for _, name := range []string{chainFile, keyFile, rootFile, crlFile} {
		content, err := readOwn(filepath.Join(dir, name))
		if err != nil && (name != crlFile || !errors.Is(err, fs.ErrNotExist)) {
			return nil, nil, err
		}
		text[name] = content
	}
	p, err := newPair(text[chainFile], text[keyFile])
	if err != nil {
		return nil, nil, fmt.Errorf("%s with %s: %w", chainFile, keyFile, err)
	}
	t, err := newTrusted(bytes.Join([][]byte{text[rootFile], text[crlFile]}, []byte("\n")))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", rootFile, err)
	}
	return p, t, nil
}

// readOwn reads a file of this user's, or of root's, that no other user may write: such a user could choose the workload's
// identity, and the roots that it trusts.
func readOwn(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	owner, is := info.Sys().(*syscall.Stat_t)
	if !is || int(owner.Uid) != os.Geteuid() && owner.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s may be written by others than this user (uid %d)", path, os.Geteuid())
	}
	return safefile.Read(path, longestFile)
}

// expected returns why a certificate is not for the identity that this agent would request, as far as it knows that; nil: it is.
func (s *Secrets) expected(p *pair) error {
	id, err := identity.FromCertificate(p.certs[0])
	if err != nil {
		return err
	}
	for _, part := range [...][3]string{
		{"trust domain", id.TrustDomain, s.opts.Expect.TrustDomain}, {"namespace", id.Namespace, s.opts.Expect.Namespace},
		{"service account", id.ServiceAccount, s.opts.Expect.ServiceAccount},
	} {
		if part[2] != "" && part[1] != part[2] {
			return fmt.Errorf("it is for %s, and this workload's %s is %s", id, part[0], part[2])
		}
	}
	return nil
}

// keptInForce reports whether the certificate in force is one that was kept.
func (s *Secrets) keptInForce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pair != nil && s.pair == s.kept
}
