package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// Finder returns an object of the cluster, or nothing if it does not exist.
type Finder func(apiVersion, kind, namespace, name string) (map[string]any, error)

// Release describes the installation, for templates.
type Release struct {
	Name, Namespace      string
	Revision             int // how often it was installed, with this time
	IsInstall, IsUpgrade bool
	Service              string // Helm's name: labels of objects have it
}

// NewRelease returns the release of a name in a namespace that is installed the n-th time.
func NewRelease(name, namespace string, n int) Release {
	return Release{name, namespace, n, n == 1, n > 1, "Helm"}
}

// filling executes the templates of a chart. They cannot call methods: with Go's own templates, which can, the linker would keep all
// exported methods of the program.
type filling struct {
	templates *template.Template
	words     map[string]map[string]any // by template
}

// Fill returns the texts of the files of a chart and its parts, by their names. Values have all defaults. find may be nil.
func (c *Chart) Fill(values Values, of Release, find Finder) (map[string]string, error) {
	f := filling{template.New(c.Metadata.Name).Option("missingkey=zero"), map[string]map[string]any{}}
	f.templates.Funcs(f.functions(find))
	if err := f.parse(c, values, of); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, words := range f.words {
		text, err := f.execute(name, words)
		if err != nil {
			return nil, plain(err)
		}
		out[name] = text
	}
	return out, nil
}

// parse reads the templates of a chart after those of its parts. Files that begin with "_" only define templates for others.
func (f filling) parse(c *Chart, values Values, of Release) error {
	for _, part := range c.parts {
		own, _ := values[part.Metadata.Name].(Values)
		if err := f.parse(part, own, of); err != nil {
			return err
		}
	}
	for _, file := range c.Templates {
		name := path.Join(c.path, file.Name)
		if _, err := f.templates.New(name).Parse(string(file.Data)); err != nil {
			return err
		}
		if !strings.HasPrefix(path.Base(name), "_") {
			f.words[name] = map[string]any{"Chart": c.Metadata, "Values": values, "Release": of}
		}
	}
	return nil
}

func (f filling) execute(name string, words any) (string, error) {
	var out strings.Builder
	err := f.templates.ExecuteTemplate(&out, name, words)
	return strings.ReplaceAll(out.String(), "<no value>", ""), err
}

// functions returns the functions of Helm's templates that the chart uses.
func (f filling) functions(find Finder) template.FuncMap {
	if find == nil {
		find = func(string, string, string, string) (map[string]any, error) { return map[string]any{}, nil }
	}
	all := sprig.TxtFuncMap()
	for _, outside := range []string{"env", "expandenv", "getHostByName"} {
		delete(all, outside)
	}
	maps.Copy(all, template.FuncMap{
		"include": f.execute,
		"lookup":  find,
		"fail":    func(message string) (string, error) { return "", refusal(message) },
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"toJson": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
	})
	return all
}

// refusal is the message of a template that refuses its values.
type refusal string

func (r refusal) Error() string { return string(r) }

// plain returns the message of a template that refuses its values, without the place in the template; other errors as they are.
func plain(err error) error {
	if message, ok := errors.AsType[refusal](err); ok {
		return fmt.Errorf("values: %w", message)
	}
	return err
}
