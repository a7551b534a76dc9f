package install

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"fairway/deploy"
)

// Values are the values that a user sets for the chart.
type Values = map[string]any

// target describes the release that is rendered, and its cluster.
type target struct {
	release, namespace string
	revision           int                  // of the release: how often it was installed, with this time
	find               finder               // nil: there is no cluster
	capabilities       *common.Capabilities // nil: those of the Kubernetes that this program was built with
}

// rendering is the chart with its values filled in.
type rendering struct {
	chart    *chart.Chart
	values   Values
	manifest string // all objects, in the order of their creation
	objects  []*unstructured.Unstructured
	notes    string
}

// loadChart reads the embedded chart. It skips the file in the folder that is only for readers.
func loadChart() (*chart.Chart, error) {
	if _, err := deploy.CRDs(); err != nil {
		return nil, err
	}
	var files []*archive.BufferedFile
	err := fs.WalkDir(deploy.Chart(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "crds/README.md" {
			return err
		}
		text, err := fs.ReadFile(deploy.Chart(), path)
		files = append(files, &archive.BufferedFile{Name: path, Data: text})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	return loader.LoadFiles(files)
}

// prepared returns the chart for a target, and the words that its templates may use: validated values over the chart's own, the release.
func prepared(to target, values Values) (*chart.Chart, common.Values, error) {
	c, err := loadChart()
	if err != nil {
		return nil, nil, err
	}
	if k := to.capabilities; k != nil && !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, k.KubeVersion.Version) {
		return nil, nil, fmt.Errorf("the cluster's Kubernetes is %s; want %s", k.KubeVersion.Version, c.Metadata.KubeVersion)
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, nil, fmt.Errorf("values: %w", err)
	}
	words, err := util.ToRenderValues(c, values, common.ReleaseOptions{
		Name: to.release, Namespace: to.namespace, Revision: to.revision, IsInstall: to.revision == 1, IsUpgrade: to.revision > 1,
	}, to.capabilities)
	return c, words, err
}

// render fills in the chart. An error says which value is wrong.
func render(to target, values Values) (*rendering, error) {
	c, words, err := prepared(to, values)
	if err != nil {
		return nil, err
	}
	out := &rendering{chart: c, values: values}
	files, err := fill(c, words, to.find)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Collect(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			out.notes += files[name]
			delete(files, name)
		}
	}
	return out, out.sort(files)
}

// sort parses the files and puts their objects in the order of their creation.
func (r *rendering) sort(files map[string]string) error {
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	if len(hooks) > 0 {
		return errors.New("the chart has hooks, which pilotctl does not run")
	}
	var b strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", m.Name, strings.TrimSpace(m.Content))
		o, err := object([]byte(m.Content))
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
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

// objects parses YAML of several documents, in order of the text. It skips empty ones.
func objects(text string) (out []*unstructured.Unstructured, err error) {
	parts := releaseutil.SplitManifests(text)
	for _, name := range slices.SortedFunc(maps.Keys(parts), byNumber) {
		if isEmpty(parts[name]) {
			continue
		}
		o, err := object([]byte(parts[name]))
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// byNumber compares the names of SplitManifests' parts: manifest-<number>.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func isEmpty(doc string) bool {
	for line := range strings.Lines(doc) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}
