package zookeeperbin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fairway/build/binary"
)

// downloader puts the jars that a pom asks for into dir.
type downloader func(ctx context.Context, pom, dir string) error

// Obtain returns what runs a server, downloading it first where it is missing. What it says of its progress goes to log.
// Concurrent calls, in this process or others, download once.
func Obtain(ctx context.Context, log io.Writer) (Server, error) {
	found, err := Find()
	if !errors.Is(err, ErrNotObtained) {
		return found, err
	}
	p, err := locate()
	if err != nil {
		return Server{}, err
	}
	if err := install(ctx, log, p, mavenCopy); err != nil {
		return Server{}, err
	}
	return Find()
}

// install puts the pinned jars into their folder, holding a lock beside it meanwhile.
func install(ctx context.Context, log io.Writer, p place, get downloader) error {
	dir := filepath.Dir(p.jars)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of ZooKeeper: %w", err)
	}
	unlock, err := binary.Lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if info, err := os.Stat(p.jars); err == nil && info.IsDir() { // another process was faster
		return nil
	}
	scratch, err := os.MkdirTemp(dir, "download-")
	if err != nil {
		return fmt.Errorf("make a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)

	fmt.Fprintf(log, "obtaining ZooKeeper %s from Maven Central (%d jars) into %s\n", Version, len(p.pins), dir)
	got, want := filepath.Join(scratch, "got"), filepath.Join(scratch, "lib")
	for _, d := range []string{got, want} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fmt.Errorf("make a scratch folder: %w", err)
		}
	}
	if err := get(ctx, p.pom, got); err != nil {
		return fmt.Errorf("%w; or set %s to the folder of a release's jars", err, Variable)
	}
	for _, jar := range p.pins {
		from := filepath.Join(got, jar.name)
		if err := verify(from, jar.sha256); err != nil {
			return err
		}
		if err := os.Rename(from, filepath.Join(want, jar.name)); err != nil {
			return fmt.Errorf("obtain ZooKeeper: %w", err)
		}
	}
	if err := os.Rename(want, p.jars); err != nil {
		return fmt.Errorf("obtain ZooKeeper: %w", err)
	}
	return nil
}

func verify(path, want string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("verify ZooKeeper: %w", err)
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("verify ZooKeeper: %s has checksum %s, pinned is %s: refusing to run it", filepath.Base(path), got, want)
	}
	return nil
}

// mavenCopy asks Maven.
func mavenCopy(ctx context.Context, pom, dir string) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return errors.New("obtain ZooKeeper: no Maven here (mvn)")
	}
	// the plugin's version too is pinned; Maven writes nothing beside the pom
	c := exec.CommandContext(ctx, "mvn", "-q", "-B", "-ntp", "-f", pom,
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DoutputDirectory="+dir, "-DincludeScope=runtime")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("obtain ZooKeeper: mvn: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
