package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"fairway/deploy"
	"fairway/internal/ctl/chart"
)

// Values are the values that a user sets for the chart.
type Values = chart.Values

// target describes the release that is rendered, and its cluster.
type target struct {
	release, namespace string
	revision           int          // of the release: how often it was installed, with this time
	find               chart.Finder // nil: there is no cluster
	kubernetes         string       // the cluster's version; empty: there is no cluster
}

// rendering is the chart with its values filled in.
type rendering struct {
	chart    json.RawMessage // as it is recorded
	values   Values
	manifest string // all objects, in the order of their creation
	objects  []*unstructured.Unstructured
	notes    string
}

// notes is the file of a chart that is for the user.
const notes = "NOTES.txt"

// render fills in the chart. An error says which value is wrong.
func render(to target, values Values) (*rendering, error) {
	if _, err := deploy.CRDs(); err != nil {
		return nil, err
	}
	c, err := chart.Load(deploy.Chart(), "crds/README.md")
	if err != nil {
		return nil, err
	}
	if to.kubernetes != "" {
		if err := c.Runs(to.kubernetes); err != nil {
			return nil, err
		}
	}
	all, err := c.Choose(values)
	if err != nil {
		return nil, err
	}
	files, err := c.Fill(all, chart.NewRelease(to.release, to.namespace, to.revision), to.find)
	if err != nil {
		return nil, err
	}
	out := &rendering{values: values}
	if out.chart, err = json.Marshal(c); err != nil {
		return nil, err
	}
	for name, text := range files {
		if strings.HasSuffix(name, "/"+notes) { // only one chart has them
			out.notes = text
			delete(files, name)
		}
	}
	return out, out.sort(files)
}

// sort parses the files and puts their objects in the order of their creation.
func (r *rendering) sort(files map[string]string) error {
	manifests, err := chart.Manifests(files)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", m.File, m.Text)
		o, err := object([]byte(m.Text))
		if err != nil {
			return fmt.Errorf("%s: %w", m.File, err)
		}
		r.objects = append(r.objects, o)
	}
	r.manifest = b.String()
	return nil
}

// object parses one object of YAML.
func object(text []byte) (*unstructured.Unstructured, error) {
	o := new(unstructured.Unstructured)
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		return nil, err
	}
	if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
		return nil, errors.New("no object: it lacks apiVersion, kind or name")
	}
	return o, nil
}

// objects parses YAML of several documents, in order of the text. It skips those that are only comments.
func objects(text string) (out []*unstructured.Unstructured, err error) {
	for _, document := range chart.Split(text) {
		if isEmpty(document) {
			continue
		}
		o, err := object([]byte(document))
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func isEmpty(doc string) bool {
	for line := range strings.Lines(doc) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}
