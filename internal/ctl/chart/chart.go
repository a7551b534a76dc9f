package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"
)

// Chart is a chart without the charts that have a condition which does not hold. Its JSON is that of Helm's records.
type Chart struct {
	Metadata      Metadata  `json:"metadata"`
	Lock          *struct{} `json:"lock"`
	Templates     []File    `json:"templates"`
	Values        Values    `json:"values"` // defaults, those of its parts among them
	Schema        []byte    `json:"schema"`
	SchemaModTime time.Time `json:"schemamodtime"` // unset: the chart is embedded
	Files         []File    `json:"files"`

	parts []*Chart
	path  string // "fairway", or "fairway/charts/gateway" for a part
}

// Metadata is the content of Chart.yaml.
type Metadata struct {
	APIVersion   string       `json:"apiVersion"`
	Name         string       `json:"name"`
	Description  string       `json:"description,omitempty"`
	Type         string       `json:"type,omitempty"`
	Version      string       `json:"version"`
	AppVersion   string       `json:"appVersion,omitempty"`
	KubeVersion  string       `json:"kubeVersion,omitempty"`
	Dependencies []Dependency `json:"dependencies,omitempty"`
}

// Dependency names a part, and the value that switches it on.
type Dependency struct {
	Name       string `json:"name"`
	Version    string `json:"version,omitempty"`
	Repository string `json:"repository"`
	Condition  string `json:"condition,omitempty"`
	Enabled    bool   `json:"enabled,omitempty"`
}

// File is a file of a chart.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// The files and folders of a chart that have a meaning.
const (
	metadataFile    = "Chart.yaml"
	valuesFile      = "values.yaml"
	schemaFile      = "values.schema.json"
	templatesFolder = "templates"
	partsFolder     = "charts"
)

// Load reads a chart, and leaves out one file.
func Load(files fs.FS, without string) (*Chart, error) { return load(files, without, "") }

func load(files fs.FS, without, above string) (*Chart, error) {
	c := &Chart{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == partsFolder:
			return fs.SkipDir
		case d.IsDir() || name == without:
			return nil
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return c.take(name, text)
	})
	if err == nil && c.Metadata.Name == "" {
		err = errors.New("Chart.yaml has no name")
	}
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	if above != "" && len(c.Metadata.Dependencies) > 0 {
		return nil, fmt.Errorf("chart %s is a part of another, and has parts itself", c.Metadata.Name)
	}
	c.path = path.Join(above, c.Metadata.Name)
	for i, d := range c.Metadata.Dependencies {
		folder, err := fs.Sub(files, path.Join(partsFolder, d.Name))
		if err != nil {
			return nil, err
		}
		part, err := load(folder, "", path.Join(c.path, partsFolder))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		c.Metadata.Dependencies[i].Enabled = true
		c.parts = append(c.parts, part)
	}
	return c, nil
}

func (c *Chart) take(name string, text []byte) (err error) {
	switch {
	case name == metadataFile:
		err = yaml.UnmarshalStrict(text, &c.Metadata)
	case name == valuesFile:
		c.Values, err = Parse(text)
	case name == schemaFile:
		c.Schema = text
	case path.Dir(name) == templatesFolder:
		c.Templates = append(c.Templates, File{name, text})
	default:
		c.Files = append(c.Files, File{name, text})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// part returns the part of a name; nil: there is none.
func (c *Chart) part(name string) *Chart {
	for _, p := range c.parts {
		if p.Metadata.Name == name {
			return p
		}
	}
	return nil
}

// Runs returns an error if the chart is not for a version of Kubernetes.
func (c *Chart) Runs(kubernetes string) error {
	version, err := semver.NewVersion(kubernetes)
	if err != nil {
		return fmt.Errorf("the cluster's Kubernetes has the version %q: %w", kubernetes, err)
	}
	want, err := semver.NewConstraint(c.Metadata.KubeVersion)
	if err != nil {
		return fmt.Errorf("kubeVersion %q of the chart: %w", c.Metadata.KubeVersion, err)
	}
	if !want.Check(version) {
		return fmt.Errorf("the cluster's Kubernetes is %s; want %s", kubernetes, c.Metadata.KubeVersion)
	}
	return nil
}
