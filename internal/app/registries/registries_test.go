package registries_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fairway/internal/app/lasting"
	"fairway/internal/app/registries"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a registries file that is followed, and the rows of its sources.
type world struct {
	*testing.T
	file    string
	sources *lasting.Sources
	shards  *shards.Set
	to      *settled
}

// settled passes on the problems that it receives.
type settled struct{ problems chan []mesh.Problem }

func (s *settled) Apply(b source.Batch) {
	for at, list := range b.Problems {
		if at.Source == "registries" {
			s.problems <- list
		}
	}
}

func start(t *testing.T, text string) *world {
	dir := t.TempDir()
	w := &world{T: t, file: filepath.Join(dir, "registries"), to: &settled{make(chan []mesh.Problem, 100)}}
	w.write(text)
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	w.shards = shards.New(w.to, log)
	w.sources = lasting.New(w.shards, lasting.Files{Dir: filepath.Join(dir, "state"), Suffix: ".registry.json"}, log)
	r := registries.New(registries.Options{
		File: w.file, Sources: w.sources, Log: log, Env: registries.Env{Decoder: decoder, Log: log},
	})
	sink, err := w.shards.Join(r.Name(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx, sink) }()
	go func() { ended <- w.sources.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

func (w *world) write(text string) {
	w.Helper()
	next := w.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(next, w.file); err != nil {
		w.Fatal(err)
	}
}

// becomes waits until these sources run, and no others.
func (w *world) becomes(names ...string) {
	w.Helper()
	rig.Eventually(w.T, func() error {
		if got := w.sources.Names(); !slices.Equal(got, names) {
			return fmt.Errorf("%v run, want %v", got, names)
		}
		return nil
	})
}

// says waits until the problems of the file are of these beginnings.
func (w *world) says(want ...string) {
	w.Helper()
	var got []string
	rig.Eventually(w.T, func() error {
		select {
		case list := <-w.to.problems:
			got = nil
			for _, p := range list {
				got = append(got, fmt.Sprintf("%d %s %s", p.Line, p.Field, p.Message))
			}
		default:
		}
		if len(got) != len(want) {
			return fmt.Errorf("said %q, want %q", got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				return fmt.Errorf("said %q, want %q", got, want)
			}
		}
		return nil
	})
}

const two = `registries:
- name: one
  memory: {}
- memory: {host: "{name}.two"}
`

// TestFileIsFollowed: registries are added, changed and removed with the file. A wrong entry delays no other, and a registry is
// read as before if its entry became wrong.
func TestFileIsFollowed(t *testing.T) {
	w := start(t, two)
	w.becomes("Memory/default", "Memory/one")
	w.write("registries:\n- memory: {hosts: x}\n- name: three\n  memory: {}\n- name: four\n- name: a/b\n  memory: {port: 70000}\n" +
		"- {name: five, wait: soon, memory: {}, etcd: {}}\n- {name: three, memory: {}}\n")
	w.says(`2 registries[0] unknown field "hosts"`, "5 registries[2] it is of no kind; want one of ", `6 registries[3] name: "a/b"`,
		"6 registries[3] memory.port: 70000", "8 registries[4] ", "8 registries[4] wait", "9 registries[5] Memory/three is there twice")
	w.becomes("Memory/default", "Memory/three")
	w.write("registries: 7")
	w.says("1  line 1: registries is not a list")
	w.write("{")
	w.says("1  it is not YAML")
	w.becomes("Memory/default", "Memory/three")
	w.write(two)
	w.says()
	w.becomes("Memory/default", "Memory/one")
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	w.becomes()
}

// Options under names that they had before count, and a problem names each. Beside the new name the old one is unknown.
func TestOldNamesOfOptions(t *testing.T) {
	w := start(t, `registries:
- consul:
    urls: ['http://127.0.0.1:1']
    keepFor: 5s
- nomad: {urls: ['http://127.0.0.1:1'], keep: soon}
- eureka: {urls: ['http://127.0.0.1:1'], keep: 5s, keepMissing: 5s}
- zookeeper: {servers: ['127.0.0.1:1'], keepMissingSeconds: -1}
- {name: default, zookeeper: {servers: ['127.0.0.1:1'], keepMissingSeconds: 0}}
- {name: long, zookeeper: {servers: ['127.0.0.1:1'], keepMissingSeconds: 100000}}
`)
	w.says("4 registries[0].consul.keepFor keepFor is an old name of keepMissing",
		"5 registries[1].nomad.keep keep is an old name of keepMissing", `5 registries[1] nomad.keepMissing: "soon"; want a duration from 0s to 24h`,
		`6 registries[2] unknown field "keep"`,
		"7 registries[3].zookeeper.keepMissingSeconds keepMissingSeconds is an old name of keepMissing",
		"8 registries[4].zookeeper.keepMissingSeconds ", "8 registries[4] ZooKeeper/default is there twice",
		"9 registries[5].zookeeper.keepMissingSeconds ", `9 registries[5] zookeeper.keepMissing: "27h46m40s"; want a duration from 0s to 24h`)
	w.becomes("Consul/default", "ZooKeeper/default")
}

// TestStartWaits: all registries of the file have joined before the file counts as read.
func TestStartWaits(t *testing.T) {
	w := start(t, "registries:\n- etcd: {urls: ['http://127.0.0.1:1']}\n- eureka: {urls: ['http://127.0.0.1:1']}\n")
	w.becomes("Eureka/default", "etcd/default")
	if w.shards.Synced() {
		t.Error("all is said to be there, and no registry has been read")
	}
}
