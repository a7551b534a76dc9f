package zookeeperbin

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

// Version is the ZooKeeper release that tools/zookeeper requires.
const Version = "3.9.3"

// Variable is the environment variable that names another folder of jars.
const Variable = "ZOOKEEPERLIB"

// What is missing where no ZooKeeper can be run.
var (
	ErrNotObtained = errors.New("no ZooKeeper here: run `go run ./build/zookeeper`, or set ZOOKEEPERLIB to the folder of a release's jars")
	ErrNoJava      = errors.New("no Java here, which ZooKeeper runs on: install a Java runtime of version 11 or later")
)

// Server is what runs a ZooKeeper server.
type Server struct {
	Java string // the program
	Jars string // the folder of all that it needs
}

// Main is the class that the server begins in.
const Main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// Find returns what is there, without downloading anything. It fails with ErrNoJava or ErrNotObtained where something is missing,
// and with another error where ZOOKEEPERLIB names no folder of jars.
func Find() (Server, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return Server{}, ErrNoJava
	}
	if named := os.Getenv(Variable); named != "" {
		found, err := filepath.Glob(filepath.Join(named, "zookeeper-*.jar"))
		if err != nil || len(found) == 0 {
			return Server{}, fmt.Errorf("%s=%s is not a folder with ZooKeeper's jars", Variable, named)
		}
		abs, err := filepath.Abs(named)
		return Server{java, abs}, err
	}
	p, err := locate()
	if err != nil {
		return Server{}, err
	}
	if info, err := os.Stat(p.jars); err != nil || !info.IsDir() {
		return Server{}, ErrNotObtained
	}
	return Server{java, p.jars}, nil
}

// place is what is obtained, and where to.
type place struct {
	pom  string
	pins []pin
	jars string // folder; it is there when all of it is
}

// pin is a jar that belongs to the server.
type pin struct{ sha256, name string }

func locate() (place, error) {
	root, err := envoybin.Root()
	if err != nil {
		return place{}, err
	}
	from := filepath.Join(root, "tools", "zookeeper")
	dir, err := binary.Cached("zookeeper", "", from, "pom.xml", "jars.sha256")
	if err != nil {
		return place{}, err
	}
	text, err := os.ReadFile(filepath.Join(from, "jars.sha256"))
	if err != nil {
		return place{}, fmt.Errorf("read what ZooKeeper is made of: %w", err)
	}
	pins, err := readPins(string(text))
	if err != nil {
		return place{}, err
	}
	return place{filepath.Join(from, "pom.xml"), pins, filepath.Join(dir, "lib")}, nil
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
