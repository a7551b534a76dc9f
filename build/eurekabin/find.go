package eurekabin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fairway/build/binary"
	"fairway/build/envoybin"
)

// Version is the release of Eureka's core that tools/eureka comes to.
const Version = "2.0.4"

// Variable is the environment variable that names another folder.
const Variable = "EUREKASERVER"

// Main is the class that the server begins in.
const Main = "Main"

// What is missing where no Eureka can be run.
var (
	ErrNotObtained = errors.New(
		"no Eureka here: run `go run ./build/eureka`, or set EUREKASERVER to a folder with its jars in lib and the class Main in classes")
	ErrNoJava = errors.New("no Java here, which Eureka runs on: install a JDK of version 17 or later, and Maven")
)

// Server is what runs a Eureka server.
type Server struct {
	Java  string   // the program
	Paths []string // of classes and jars, in order: the class path
}

// Find returns what is there, without downloading anything. It fails with ErrNoJava or ErrNotObtained where something is missing,
// and with another error where EUREKASERVER names no such folder.
func Find() (Server, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return Server{}, ErrNoJava
	}
	if named := os.Getenv(Variable); named != "" {
		abs, err := filepath.Abs(named)
		if err != nil {
			return Server{}, fmt.Errorf("%s=%s: %w", Variable, named, err)
		}
		if !complete(abs) {
			return Server{}, fmt.Errorf("%s=%s has no class Main in classes", Variable, named)
		}
		return at(java, abs)
	}
	p, err := locate()
	if err != nil {
		return Server{}, err
	}
	if !complete(p.folder) {
		return Server{}, ErrNotObtained
	}
	return at(java, p.folder)
}

func complete(folder string) bool {
	info, err := os.Stat(filepath.Join(folder, "classes", Main+".class"))
	return err == nil && info.Mode().IsRegular()
}

func at(java, folder string) (Server, error) {
	jars, err := filepath.Glob(filepath.Join(folder, "lib", "*.jar"))
	if err != nil || len(jars) == 0 {
		return Server{}, fmt.Errorf("%s has no jars in lib", folder)
	}
	return Server{java, append([]string{filepath.Join(folder, "classes")}, jars...)}, nil
}

// place is what is obtained, and where to.
type place struct {
	source string // folder
	pins   []pin
	folder string // it is there when all of it is
}

// pin is a jar that belongs to the server.
type pin struct{ sha256, name string }

func locate() (place, error) {
	root, err := envoybin.Root()
	if err != nil {
		return place{}, err
	}
	source := filepath.Join(root, "tools", "eureka")
	dir, err := binary.Cached("eureka", "", source, "pom.xml", "jars.sha256", "Main.java")
	if err != nil {
		return place{}, err
	}
	text, err := os.ReadFile(filepath.Join(source, "jars.sha256"))
	if err != nil {
		return place{}, fmt.Errorf("read what Eureka is made of: %w", err)
	}
	pins, err := readPins(string(text))
	if err != nil {
		return place{}, err
	}
	return place{source, pins, filepath.Join(dir, "server")}, nil
}

// readPins reads lines as sha256sum writes them.
func readPins(text string) ([]pin, error) {
	var out []pin
	for line := range strings.Lines(text) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || len(sum) != 2*sha256.Size || name != filepath.Base(name) || filepath.Ext(name) != ".jar" {
			return nil, fmt.Errorf("jars.sha256: %q is not a checksum and the name of a jar", line)
		}
		out = append(out, pin{sum, name})
	}
	if len(out) == 0 {
		return nil, errors.New("jars.sha256 pins no jar")
	}
	return out, nil
}
