package eurekabin

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

// maker does the two things that others than this program do.
type maker struct {
	copy    func(ctx context.Context, pom, dir string) error         // the jars that a pom asks for, into dir
	compile func(ctx context.Context, source, lib, dir string) error // a class of a file with the jars in lib, into dir
}

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
	if err := install(ctx, log, p, maker{mavenCopy, javac}); err != nil {
		return Server{}, err
	}
	return Find()
}

// install makes the folder, holding a lock beside it meanwhile.
func install(ctx context.Context, log io.Writer, p place, m maker) error {
	dir := filepath.Dir(p.folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of Eureka: %w", err)
	}
	unlock, err := binary.Lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if complete(p.folder) { // another process was faster
		return nil
	}
	scratch, err := os.MkdirTemp(dir, "download-")
	if err != nil {
		return fmt.Errorf("make a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)

	fmt.Fprintf(log, "obtaining Eureka %s by Maven (%d jars) into %s\n", Version, len(p.pins), dir)
	got, made := filepath.Join(scratch, "got"), filepath.Join(scratch, "server")
	lib, classes := filepath.Join(made, "lib"), filepath.Join(made, "classes")
	for _, d := range []string{got, lib, classes} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make a scratch folder: %w", err)
		}
	}
	if err := m.copy(ctx, filepath.Join(p.source, "pom.xml"), got); err != nil {
		return fmt.Errorf("obtain Eureka: %w; or set %s to a folder that has it", err, Variable)
	}
	for _, jar := range p.pins {
		from := filepath.Join(got, jar.name)
		if err := verify(from, jar.sha256); err != nil {
			return err
		}
		if err := os.Rename(from, filepath.Join(lib, jar.name)); err != nil {
			return fmt.Errorf("obtain Eureka: %w", err)
		}
	}
	if err := m.compile(ctx, filepath.Join(p.source, Main+".java"), lib, classes); err != nil {
		return fmt.Errorf("obtain Eureka: %w; or set %s to a folder that has it", err, Variable)
	}
	if !complete(made) {
		return errors.New("obtain Eureka: no class came of Main.java")
	}
	if err := os.RemoveAll(p.folder); err != nil { // what is there is not complete
		return fmt.Errorf("obtain Eureka: %w", err)
	}
	if err := os.Rename(made, p.folder); err != nil {
		return fmt.Errorf("obtain Eureka: %w", err)
	}
	return nil
}

func verify(path, want string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("verify Eureka: %w", err)
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("verify Eureka: %s has checksum %s, pinned is %s: refusing to run it", filepath.Base(path), got, want)
	}
	return nil
}

// mavenCopy asks Maven. The plugin's version too is pinned; nothing is written beside the pom.
func mavenCopy(ctx context.Context, pom, dir string) error {
	return run(ctx, dir, "mvn", "-q", "-B", "-ntp", "-f", pom,
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DoutputDirectory="+dir, "-DincludeScope=runtime")
}

func javac(ctx context.Context, source, lib, dir string) error {
	return run(ctx, dir, "javac", "--release", "17", "-proc:none", "-cp", filepath.Join(lib, "*"), "-d", dir, source)
}

func run(ctx context.Context, dir, program string, args ...string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("no %s here: %w", program, ErrNoJava)
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}
