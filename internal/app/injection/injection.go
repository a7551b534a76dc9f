package injection

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/inject"
)

// The files of the folder are the keys of Istio's ConfigMap. One that is not there says nothing.
const (
	configFile = "config"
	valuesFile = "values"
)

// Options are the parameters of injectors, besides the mesh configuration.
type Options struct {
	Folder   string          // with the files; need not exist
	Settings inject.Settings // without the files and the mesh configuration
	Files    disk.Files
	Log      *slog.Logger
}

// Current is the injector in force. Many goroutines may use one.
type Current struct {
	options  Options
	defaults *config.Object

	mu            sync.Mutex
	injector      *inject.Injector
	of            state // that injector and told belong to
	reportedError string
}

// state identifies the input of an injector: the injector is replaced when the state changes.
type state struct {
	mesh  uint64 // hash
	files [2]version
}

// version is a file at one moment. The zero one is a file that is not there.
type version struct {
	id   disk.ID
	size int64
	time time.Time
}

// New builds the first injector, from the mesh's defaults. Errors in the files are returned, and prevent the start of the program.
func New(o Options) (*Current, error) {
	c := &Current{options: o, defaults: config.DefaultMesh()}
	_, err := c.Injector(nil)
	if err == nil && c.reportedError != "" {
		err = errors.New(c.reportedError)
	}
	return c, err
}

// Injector returns the injector for a mesh configuration (nil: the defaults) and the present files of the folder. It builds a new
// one if one of them has changed.
func (c *Current) Injector(mesh *config.Object) (*inject.Injector, error) {
	if mesh == nil {
		mesh = c.defaults
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := state{mesh: mesh.Hash, files: [...]version{c.version(configFile), c.version(valuesFile)}}
	if c.injector != nil && now == c.of {
		return c.injector, nil
	}
	made, err := c.make(mesh)
	c.of = now // a state that cannot be used is not tried again until it changes
	switch {
	case err == nil:
		c.injector, c.reportedError = made, ""
	case c.injector == nil:
		return nil, err
	case c.reportedError != err.Error():
		c.reportedError = err.Error()
		c.options.Log.Error("the injector's configuration cannot be used; the one before it stays in force", "error", err)
	}
	return c.injector, nil
}

func (c *Current) path(name string) string { return filepath.Join(c.options.Folder, name) }

func (c *Current) version(name string) version {
	info, err := c.options.Files.Stat(c.path(name))
	if err != nil {
		return version{}
	}
	return version{disk.IDOf(info), info.Size(), info.ModTime()}
}

func (c *Current) make(mesh *config.Object) (*inject.Injector, error) {
	s := c.options.Settings
	s.Mesh = config.Spec[*meshconfig.MeshConfig](mesh)
	for _, f := range []struct {
		name string
		to   *inject.Text
	}{{configFile, &s.Config}, {valuesFile, &s.Values}} {
		text, _, err := disk.Read(c.options.Files, c.path(f.name), inject.MaxText)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the injector's %s: %w", f.name, err)
		}
		*f.to = inject.Text{Name: c.path(f.name), Text: text}
	}
	return inject.New(s)
}
