package workload

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairway/internal/disk"
	"fairway/internal/identity/authn"
)

// The files of the folder.
const (
	envFile   = "cluster.env"
	meshFile  = "mesh.yaml"
	rootFile  = "root-cert.pem"
	tokenFile = "istio-token"
	hostsFile = "hosts"
	unitFile  = "pilot-agent.service"
	entryFile = "workload-entry.yaml"
)

// The most that is read of the control plane's root and of a token, in bytes. The user may name a pipe.
const (
	longestRoot  = 16 << 20
	longestToken = 64 << 10
)

// file is one file of the folder.
type file struct {
	name, content string
	mode          os.FileMode
}

// Write writes the folder, whole or not at all, and returns advice for the next steps. It makes a join token last, and withdraws it if the
// folder cannot be put in place.
func Write(o Options, now func() time.Time) (advice string, err error) {
	m, err := resolve(o)
	if err != nil {
		return "", err
	}
	root, err := m.root(now())
	if err != nil {
		return "", err
	}
	files, err := m.files(root)
	if err != nil {
		return "", err
	}
	if err := m.free(); err != nil {
		return "", err
	}
	token, undo, err := m.token(now)
	if err != nil {
		return "", err
	}
	if err := m.put(append(files, file{tokenFile, token, 0o600})); err != nil {
		return "", errors.Join(err, undo())
	}
	return m.advice(), nil
}

func (m *machine) files(root string) ([]file, error) {
	env, err := m.clusterEnv()
	if err != nil {
		return nil, err
	}
	meshText, err := m.meshYAML()
	if err != nil {
		return nil, err
	}
	files := []file{
		{envFile, env, 0o644},
		{meshFile, meshText, 0o644},
		{rootFile, root, 0o644},
		{hostsFile, m.hosts(), 0o644},
		{unitFile, m.unit(), 0o644},
	}
	if m.Address == "" || m.AutoRegister {
		return files, nil
	}
	entry, err := m.workloadEntry()
	return append(files, file{entryFile, entry, 0o644}), err
}

// root returns the root certificate that verifies the control plane.
func (m *machine) root(now time.Time) (string, error) {
	path, flag := m.Root, "--root"
	if path == "" {
		path, flag = filepath.Join(m.StateDir, rootFile), "--caStateDir"
	}
	text, err := disk.Stream(path, longestRoot)
	if errors.Is(err, fs.ErrNotExist) && m.Root == "" {
		return "", fmt.Errorf(
			"the control plane's root: %w; run this where pilot-discovery keeps it and name that folder with "+
				"--caStateDir, or give the root with --root",
			err,
		)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	if strings.Contains(string(text), "PRIVATE KEY") {
		return "", fmt.Errorf("%s: %s holds a private key, which no machine may have; name the file of the root certificate alone",
			flag, path)
	}
	valid := 0
	for rest := bytes.TrimSpace(text); len(rest) > 0; {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = after
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", flag, path, err)
		}
		if now.Before(cert.NotAfter) {
			valid++
		}
	}
	if valid == 0 {
		return "", fmt.Errorf("%s: %s holds no certificate in PEM that is valid still", flag, path)
	}
	return string(text), nil
}

// token reads the token or makes a join token; undo withdraws a token that was made.
func (m *machine) token(now func() time.Time) (token string, undo func() error, err error) {
	none := func() error { return nil }
	if m.TokenFile != "" {
		text, err := disk.Stream(m.TokenFile, longestToken)
		if err != nil {
			return "", none, fmt.Errorf("--tokenFile: %w", err)
		}
		if token = strings.TrimSpace(string(text)); token == "" {
			return "", none, fmt.Errorf("--tokenFile: %s is empty", m.TokenFile)
		}
		return token, none, nil
	}
	if _, err := os.Stat(m.StateDir); err != nil {
		return "", none, fmt.Errorf(
			"a join token: %w; run this where pilot-discovery keeps them and name that folder with --caStateDir, or give "+
				"a token with --tokenFile",
			err,
		)
	}
	tokens := authn.NewJoinTokens(m.StateDir, now, slog.New(slog.DiscardHandler))
	if token, err = tokens.Create(m.id, m.TokenDuration); err != nil {
		return "", none, fmt.Errorf("a join token: %w", err)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(token, authn.JoinPrefix), ".")
	return token, func() error { return tokens.Revoke(name) }, nil
}

// free returns an error if the folder cannot be written.
func (m *machine) free() error {
	entries, err := os.ReadDir(m.Output)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--output: %w", err)
	}
	ours := map[string]bool{
		envFile:   true,
		meshFile:  true,
		rootFile:  true,
		tokenFile: true,
		hostsFile: true,
		unitFile:  true,
		entryFile: true,
	}
	for _, e := range entries {
		if !ours[e.Name()] {
			return fmt.Errorf("--output: %s holds %s, which this command did not write; name another folder", m.Output, e.Name())
		}
	}
	if len(entries) > 0 && !m.Overwrite {
		return fmt.Errorf("--output: %s is written already; name another folder, or have it replaced with --overwrite", m.Output)
	}
	return nil
}

// put writes all files beside the folder's place, and moves them there at once.
func (m *machine) put(files []file) error {
	target := filepath.Clean(m.Output)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	made, err := os.MkdirTemp(filepath.Dir(target), "."+filepath.Base(target)+"-") // 0700
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	defer os.RemoveAll(made) // the rest of it, if it was not renamed
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(made, f.name), []byte(f.content), f.mode); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	was := made + ".was"
	switch err := os.Rename(target, was); {
	case err == nil:
		defer os.RemoveAll(was)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--output: %w", err)
	}
	if err := os.Rename(made, target); err != nil {
		_ = os.Rename(was, target) // the old folder, if there was one
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

func (m *machine) advice() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wrote %s for %s\n", m.Output, m.id)
	if m.TokenFile == "" {
		fmt.Fprintf(&b, "its token admits one machine, within %s\n", m.TokenDuration)
	}
	switch {
	case m.AutoRegister:
		fmt.Fprintf(&b, "give the WorkloadGroup %s/%s to the control plane: the machine registers with it\n", m.namespace, m.name)
	case m.Address != "":
		fmt.Fprintf(&b, "give %s to the control plane: put it into its --configDir\n", filepath.Join(m.Output, entryFile))
	}
	fmt.Fprintf(&b, "on the machine, with %s and %s in place, as root:\n", m.Agent, m.Envoy)
	for _, line := range []string{
		"id " + m.User + " || useradd --system --no-create-home " + m.User,
		"move the folder to " + m.Directory + " && chown -R root: " + m.Directory + " && chmod 0755 " + m.Directory,
		"cat " + m.Directory + "/" + hostsFile + " >> /etc/hosts",
		"cp " + m.Directory + "/" + unitFile + " /etc/systemd/system/ && systemctl daemon-reload && systemctl enable --now pilot-agent",
	} {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}
