package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/yaml"
)

// finder returns an object of the cluster, or nothing if it does not exist.
type finder func(apiVersion, kind, namespace, name string) (map[string]any, error)

// filling executes the templates of a chart. Helm's own engine would double the size of the program's code: its templates may call
// methods by names that are known only at run time, so the linker would keep all methods of all types.
type filling struct {
	templates *template.Template
	words     map[string]map[string]any // by template
}

// fill returns the texts of a chart's files, and of those of the charts in it, by their names. find may be nil.
func fill(c *chart.Chart, words common.Values, find finder) (map[string]string, error) {
	f := filling{template.New(c.Name()).Option("missingkey=zero"), map[string]map[string]any{}}
	f.templates.Funcs(f.functions(find))
	if err := f.parse(c, words); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, words := range f.words {
		text, err := f.execute(name, words)
		if err != nil {
			return nil, located(err)
		}
		out[name] = text
	}
	return out, nil
}

// parse reads the templates of a chart after those of its dependencies. Files that begin with "_" only define templates for others.
func (f filling) parse(c *chart.Chart, words map[string]any) error {
	own := map[string]any{
		"Chart": c.Metadata, "Values": words["Values"], "Release": words["Release"], "Capabilities": words["Capabilities"],
	}
	values, err := common.Values(own).Table("Values")
	if err != nil {
		return err
	}
	for _, part := range c.Dependencies() {
		inner := maps.Clone(own)
		if inner["Values"], err = values.Table(part.Name()); err != nil {
			return err
		}
		if err := f.parse(part, inner); err != nil {
			return err
		}
	}
	for _, file := range c.Templates {
		name := path.Join(c.ChartFullPath(), file.Name)
		if _, err := f.templates.New(name).Parse(string(file.Data)); err != nil {
			return err
		}
		if !strings.HasPrefix(path.Base(name), "_") {
			f.words[name] = own
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
func (f filling) functions(find finder) template.FuncMap {
	if find == nil {
		find = func(string, string, string, string) (map[string]any, error) { return map[string]any{}, nil }
	}
	all := sprig.TxtFuncMap()
	maps.DeleteFunc(all, func(name string, _ any) bool { return name == "env" || name == "expandenv" || name == "getHostByName" })
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

// located shortens the error of a template that refuses its values to the template's position and message.
func located(err error) error {
	message, ok := errors.AsType[refusal](err)
	if !ok {
		return err
	}
	// template: <file>:<line>:<column>: executing …
	parts := strings.SplitN(err.Error(), ": ", 3)
	return fmt.Errorf("execution error at (%s): %w", parts[1], message)
}
